//! The lifeboat's folder: files that are whole or not there. Everything in here blocks.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Where what cannot be opened goes.
const ASIDE: &str = "unreadable";
/// Files that begin like this are not finished.
const UNFINISHED: char = '.';
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
        let probe = self.0.join(format!("{UNFINISHED}probe"));
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
        if entry.file_type()?.is_file() && !name.is_empty() && !name.starts_with(UNFINISHED) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
