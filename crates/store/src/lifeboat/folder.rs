//! The lifeboat's folder: files that are whole or not there. Everything in here blocks.

use std::{
    fs::{self, DirBuilder, DirEntry, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// Where what cannot be opened goes.
const ASIDE: &str = "unreadable";
/// Files that begin like this are not finished.
const UNFINISHED: char = '.';
const PROBE_NAME: &str = "probe";
/// No write takes nearly as long: whoever was at it is gone.
const GIVEN_UP: Duration = Duration::from_secs(10);
/// More than a token set takes.
const PROBE: [u8; 16 * 1024] = [0; 16 * 1024];

#[derive(Clone)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A file of this name with this content, in place of one that is there. When it returns, a crash of ours or of the
    /// machine takes nothing of it.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.make()?;
        let unfinished = self.0.join(format!("{UNFINISHED}{name}"));
        let written = write_through(&unfinished, content).and_then(|()| fs::rename(&unfinished, self.0.join(name)));
        if written.is_err() {
            // What it leaves is overwritten by the next attempt.
            fs::remove_file(&unfinished).ok();
        }
        written?;
        sync(&self.0)
    }

    /// Names of all files, oldest id first.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        names(&self.0)
    }

    /// `None`: it was taken out meanwhile.
    pub(super) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.0.join(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where nobody looks for sets, and nobody deletes it.
    pub(super) fn set_aside(&self, name: &str) -> io::Result<PathBuf> {
        let aside = self.0.join(ASIDE);
        make(&aside)?;
        let there = aside.join(name);
        fs::rename(self.0.join(name), &there)?;
        Ok(there)
    }

    /// How many were set aside.
    pub(super) fn aside(&self) -> io::Result<usize> {
        names(&self.0.join(ASIDE)).map(|names| names.len())
    }

    /// Whether a set could be written now.
    pub(super) fn probe(&self) -> io::Result<()> {
        self.make()?;
        let probe = self.0.join(format!("{UNFINISHED}{PROBE_NAME}"));
        let written = write_through(&probe, &PROBE);
        fs::remove_file(&probe).ok();
        written
    }

    fn make(&self) -> io::Result<()> {
        make(&self.0)
    }
}

fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    folder.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync)
}

fn write_through(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// A name in a folder is durable once the folder is.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if name.is_empty() || !entry.file_type()?.is_file() {
            continue;
        }
        match name.strip_prefix(UNFINISHED) {
            None => names.push(name),
            Some(whole) => names.extend(finished(folder, &entry, whole)?),
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A write that a crash cut off after its last byte gets its name: what is in it was on the disk, and is tried like any
/// other. What has no content, or stands beside an earlier one that is whole, is taken away.
fn finished(folder: &Path, entry: &DirEntry, name: &str) -> io::Result<Option<String>> {
    // Another process may have finished it just now.
    let Ok(about) = entry.metadata() else { return Ok(None) };
    if about.modified()?.elapsed().unwrap_or_default() < GIVEN_UP {
        return Ok(None);
    }
    let whole = folder.join(name);
    let taken_away = about.len() == 0 || name == PROBE_NAME || whole.exists();
    let done = if taken_away { fs::remove_file(entry.path()) } else { fs::rename(entry.path(), whole) };
    match done {
        Ok(()) => Ok((!taken_away).then(|| name.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
