//! The demo's folder: marked as such, one demo's at a time, and nothing in it is ever touched that is not the demo's.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use holdfast_core::ports::Random;
use holdfast_store::MasterKey;
use rustix::fs::FlockOperation;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::{keys, seams::OsRandom};

/// Says that a folder is the demo's.
const MARKER: &str = "holdfast-demo.txt";
const MARK: &str = "This folder belongs to `holdfast demo`, which goes on in it each time; `holdfast demo --fresh` starts \
                    over. Delete it as you like.\n";
const KEPT: &str = "demo.json";
const DATABASE: &str = "holdfast.sqlite";
const MASTER_KEY: &str = "master.key";
const SANDBOX: &str = "sandbox.json";
const STORY: &str = "demo.env";
const MAILS: &str = "mails";
/// Grows when a folder of before can no longer be gone on with.
const FORMAT: u32 = 1;

/// Ours until it is dropped.
pub(super) struct Folder {
    dir: PathBuf,
    _marker: File,
}

/// What has to be known to go on, beside database and sandbox.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    format: u32,
    /// Of the service.
    pub(super) port: u16,
    /// Of the sandbox; 0 before the first start.
    pub(super) sandbox_port: u16,
    /// Of the owner, until they set another one.
    pub(super) password: String,
    /// An API key.
    pub(super) key: String,
    /// The connector that is there from the start.
    pub(super) connector: Option<String>,
    /// Everything that is there from the start was made. What was removed since stays away.
    pub(super) seeded: bool,
    /// The same of the OAuth apps. Folders of before have them in no database.
    #[serde(default)]
    pub(super) apps: bool,
}

impl Kept {
    /// Of a new demo.
    pub(super) fn new() -> Self {
        let key = keys::secret_text("hf_", &OsRandom);
        Self {
            format: FORMAT,
            port: 0,
            sandbox_port: 0,
            password: password(&OsRandom),
            key: key.expose_secret().to_owned(),
            connector: None,
            seeded: false,
            apps: false,
        }
    }
}

impl Folder {
    /// Makes it where there is none. One that is not the demo's is left alone, and so is one that another demo is using.
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .with_context(|| format!("cannot make the folder {}", dir.display()))?;
        let marker = dir.join(MARKER);
        if !marker.exists() && fs::read_dir(dir)?.next().is_some() {
            bail!("{} is not empty and not a demo's folder; choose another with --dir PATH", dir.display());
        }
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&marker)
            .with_context(|| format!("cannot write in {}", dir.display()))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let port = read(dir).ok().flatten().map(|kept| format!(", at http://127.0.0.1:{}", kept.port));
            bail!(
                "another demo is using {}{}; end it, or choose another folder with --dir PATH",
                dir.display(),
                port.unwrap_or_default()
            );
        }
        file.set_len(0)?;
        file.write_all(MARK.as_bytes())?;
        Ok(Self { dir: dir.to_owned(), _marker: file })
    }

    /// Removes all that a demo keeps, and answers what was there. What it does not know it leaves.
    pub(super) fn clear(&self) -> anyhow::Result<Vec<String>> {
        let database = ["", "-wal", "-shm", ".sock", ".lock"].map(|end| format!("{DATABASE}{end}"));
        let others = [MASTER_KEY, SANDBOX, STORY].map(str::to_owned);
        let half_written = ["demo.json.new", "demo.env.new", "master.key.new", "sandbox.new"].map(str::to_owned);
        let mut gone = Vec::new();
        // What is needed to go on goes first: half a folder must not be gone on with.
        for name in std::iter::once(KEPT.to_owned()).chain(database).chain(others).chain(half_written) {
            match fs::remove_file(self.dir.join(&name)) {
                Ok(()) => gone.push(name),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| format!("cannot remove {name}")),
            }
        }
        match fs::remove_dir_all(self.mails()) {
            Ok(()) => gone.push(MAILS.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot remove {MAILS}")),
        }
        Ok(gone)
    }

    /// What was kept; `None`: nothing was begun yet.
    pub(super) fn kept(&self) -> anyhow::Result<Option<Kept>> {
        let kept = read(&self.dir)?;
        if kept.is_none() && self.database().exists() {
            bail!("{} is of another version's demo; --fresh starts over", self.shown());
        }
        Ok(kept)
    }

    /// Keeps it, for the eyes of its owner alone.
    pub(super) fn keep(&self, kept: &Kept) -> anyhow::Result<()> {
        self.write(KEPT, &serde_json::to_string_pretty(kept)?)
    }

    /// For whoever tells the story in a shell.
    pub(super) fn write_story(&self, names: &str) -> anyhow::Result<()> {
        self.write(STORY, names)
    }

    /// The key that seals everything, made at the first start.
    pub(super) fn master_key(&self) -> anyhow::Result<SecretString> {
        let file = self.dir.join(MASTER_KEY);
        match fs::read_to_string(&file) {
            Ok(key) => Ok(key.trim().to_owned().into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = MasterKey::generate(&OsRandom);
                self.write(MASTER_KEY, key.expose_secret())?;
                Ok(key)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    pub(super) fn database(&self) -> PathBuf {
        self.dir.join(DATABASE)
    }

    /// Where the mails are kept.
    pub(super) fn mails(&self) -> PathBuf {
        self.dir.join(MAILS)
    }

    /// Where the sandbox keeps its state.
    pub(super) fn sandbox(&self) -> PathBuf {
        self.dir.join(SANDBOX)
    }

    pub(super) fn shown(&self) -> String {
        self.dir.display().to_string()
    }

    /// Whole or not at all, on the disk when this returns, and readable by its owner alone.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let (file, beside) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
        let written = (|| {
            let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            new.write_all(text.as_bytes())?;
            new.sync_all()?;
            fs::rename(&beside, &file)?;
            File::open(&self.dir)?.sync_all()
        })();
        written.with_context(|| format!("cannot write {}", file.display()))
    }
}

fn read(dir: &Path) -> anyhow::Result<Option<Kept>> {
    let file = dir.join(KEPT);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    match serde_json::from_str::<Kept>(&text) {
        Ok(kept) if kept.format == FORMAT => Ok(Some(kept)),
        _ => bail!("{} cannot be gone on with; --fresh starts over", file.display()),
    }
}

/// Random, and easy to copy by hand: 79 bits in letters and digits that are not mistaken for others.
fn password(random: &dyn Random) -> String {
    const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    let letters: Vec<char> = bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect();
    letters.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_random_and_easy_to_copy() {
        let (one, other) = (password(&OsRandom), password(&OsRandom));

        assert_ne!(one, other);
        assert_eq!((one.len(), one.matches('-').count()), (19, 3), "{one}");
        assert!(!one.contains(['0', 'o', '1', 'l', 'i']), "{one}");
    }

    #[test]
    fn what_is_kept_is_read_back_and_anything_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert!(folder.kept().unwrap().is_none());
        let mut kept = Kept::new();
        kept.port = 8081;
        folder.keep(&kept).unwrap();
        let read = folder.kept().unwrap().unwrap();
        assert_eq!((read.port, &read.password, &read.key), (8081, &kept.password, &kept.key));

        fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        assert_eq!(folder.clear().unwrap(), [KEPT]);
        assert!(dir.path().join("notes.txt").exists());
        fs::write(dir.path().join(KEPT), "{}").unwrap();
        assert!(folder.kept().err().unwrap().to_string().contains("--fresh"));
        fs::remove_file(dir.path().join(KEPT)).unwrap();
        fs::write(folder.database(), "of another version").unwrap();
        assert!(folder.kept().err().unwrap().to_string().contains("--fresh"));
    }
}
