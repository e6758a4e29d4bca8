//! What the workspace holds, from `cargo metadata`.

use std::{ffi::OsString, path::PathBuf, process::Command};

use anyhow::Context;
use serde_json::Value;

use crate::run;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) targets: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lib,
    Bin,
    Test,
    Other,
}

impl Workspace {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let text = run::output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
        let path = |value: &Value| value.as_str().map(PathBuf::from).context("cargo metadata lacks a path");
        let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
        Ok(Self {
            root: path(&metadata["workspace_root"])?,
            target: path(&metadata["target_directory"])?,
            packages: packages
                .iter()
                .map(|package| {
                    let manifest = path(&package["manifest_path"])?;
                    Ok(Package {
                        id: text_of(&package["id"]),
                        name: text_of(&package["name"]),
                        folder: manifest.parent().context("a manifest lies in a folder")?.to_owned(),
                        targets: package["targets"].as_array().into_iter().flatten().map(Target::read).collect(),
                    })
                })
                .collect::<anyhow::Result<_>>()?,
        })
    }

    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

impl Package {
    pub(crate) fn has(&self, kind: Kind, name: &str) -> bool {
        self.targets.iter().any(|target| target.kind == kind && target.name == name)
    }
}

impl Target {
    /// From a target of `cargo metadata`, or of a build message.
    pub(crate) fn read(target: &Value) -> Self {
        let is = |kind: &str| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind));
        let kind = match () {
            () if is("lib") || is("rlib") => Kind::Lib,
            () if is("bin") => Kind::Bin,
            () if is("test") => Kind::Test,
            () => Kind::Other,
        };
        Self { name: text_of(&target["name"]), kind }
    }
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
