//! The sandbox's state in a file, so that a provider outlives its process as a real one does.
//!
//! The file is replaced as a whole: written beside, flushed to the disk, renamed. What a request changed is in it before
//! the request is answered, so that nobody holds a token that a sandbox killed in the next moment has forgotten. Requests
//! that come while it is being written share the next writing.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::client::Secrets;
use crate::counters::Counters;
use crate::desk::{Desk, World, locked};
use crate::faults::Faults;
use crate::freshdesk::Kept as FreshdeskKept;
use crate::front;
use crate::google;
use crate::gorgias;
use crate::options::Options;
use crate::shopify::shop::ShopState;
use crate::zendesk::data::Data;
use crate::zendesk::tokens::KeptTokens;

/// Grows when a file of before can no longer be read.
const FORMAT: u32 = 1;

/// Everything that a sandbox goes on from. The minute of the rate limit is not in it.
#[derive(Serialize, Deserialize)]
pub(crate) struct State {
    format: u32,
    pub(crate) offset_ms: i64,
    pub(crate) options: Options,
    pub(crate) client_secret: String,
    pub(crate) next_client_secret: Option<String>,
    /// Those that providers have made, by their prefix. Not in files of before.
    #[serde(default)]
    pub(crate) client_secrets: BTreeMap<String, Secrets>,
    pub(crate) seq: u64,
    pub(crate) helpdesks: Vec<DeskState>,
    /// Not in files of before.
    #[serde(default)]
    pub(crate) freshdesk: Vec<FreshdeskKept>,
    /// Not in files of before.
    #[serde(default)]
    pub(crate) gorgias: Vec<gorgias::Kept>,
    /// Not in files of before.
    #[serde(default)]
    pub(crate) pipedrive: crate::pipedrive::State,
    /// Absent in files of before there were any.
    #[serde(default)]
    pub(crate) shops: Vec<ShopState>,
    /// Not there in files of before.
    #[serde(default)]
    pub(crate) google: google::Kept,
    /// Not there in files of before.
    #[serde(default)]
    pub(crate) front: front::Kept,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DeskState {
    pub(crate) name: String,
    pub(crate) tokens: KeptTokens,
    pub(crate) data: Data,
    pub(crate) faults: Faults,
    pub(crate) faults_end: [Option<i64>; 2],
    pub(crate) counters: Counters,
}

impl State {
    fn of(world: &World) -> Self {
        let (common, own) = locked(&world.client).to_keep();
        Self {
            format: FORMAT,
            offset_ms: world.clock.offset_ms(),
            options: world.options(),
            client_secret: common.secret,
            next_client_secret: common.next,
            client_secrets: own,
            seq: world.seq(),
            helpdesks: world.all().iter().map(|desk| DeskState::of(desk)).collect(),
            freshdesk: world.freshdesk.all().iter().map(|account| account.to_keep()).collect(),
            gorgias: world.gorgias.to_keep(),
            pipedrive: locked(&world.pipedrive).clone(),
            shops: world.shops.states(),
            google: world.google().to_keep(),
            front: world.front().to_keep(),
        }
    }

    /// `None` where there is no file yet.
    pub(crate) fn read(file: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let broken = |why: String| {
            let why = format!("{} does not hold a sandbox's state: {why}", file.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let state: Self = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if state.format == FORMAT { Ok(Some(state)) } else { Err(broken(format!("its format is {}", state.format))) }
    }
}

impl DeskState {
    fn of(desk: &Desk) -> Self {
        let faults = locked(&desk.faults).clone();
        Self {
            name: desk.name.clone(),
            tokens: locked(&desk.tokens).to_keep(),
            data: locked(&desk.data).clone(),
            faults_end: faults.ends(),
            faults,
            counters: desk.counts.read(),
        }
    }
}

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Keeper {
    wanted: watch::Sender<u64>,
    written: watch::Receiver<u64>,
}

impl Keeper {
    /// On a task of the current runtime, which ends with the world.
    pub(crate) fn start(world: &Arc<World>, file: PathBuf) -> Self {
        let (wanted, asked) = watch::channel(0);
        let (done, written) = watch::channel(0);
        tokio::spawn(write_what_is_wanted(Arc::downgrade(world), file, asked, done));
        Self { wanted, written }
    }

    /// Returns once everything up to now is in the file, or could not be written.
    pub(crate) async fn keep(&self) {
        let mut mine = 0;
        self.wanted.send_modify(|wanted| {
            *wanted += 1;
            mine = *wanted;
        });
        // An error means that the runtime is about to end: there is nobody left to answer to.
        self.written.clone().wait_for(|written| *written >= mine).await.ok();
    }
}

async fn write_what_is_wanted(
    world: Weak<World>,
    file: PathBuf,
    mut asked: watch::Receiver<u64>,
    done: watch::Sender<u64>,
) {
    while asked.changed().await.is_ok() {
        let wanted = *asked.borrow_and_update();
        let (world, file) = (Weak::clone(&world), file.clone());
        let writing = tokio::task::spawn_blocking(move || {
            let Some(world) = world.upgrade() else { return Ok(()) };
            let state = State::of(&world);
            drop(world);
            write(&file, &serde_json::to_vec(&state)?)
        });
        match writing.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the sandbox's state could not be written: {error}"),
            // The runtime ends.
            Err(_) => return,
        }
        done.send_replace(wanted);
    }
}

/// Either the old file or the new one, whole, also after a power cut. Only its owner may read it: tokens are in it.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = file.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut new = options.open(&beside)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(&beside, file)?;
    // The rename itself; only Unix lets a folder be flushed.
    match file.parent() {
        Some(folder) if cfg!(unix) => {
            File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?.sync_all()
        }
        _ => Ok(()),
    }
}
