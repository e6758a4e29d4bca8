//! `holdfast master-key`.

use std::process::ExitCode;

use holdfast_store::MasterKey;
use secrecy::ExposeSecret;
use serde_json::json;

use super::Output;
use crate::seams::OsRandom;

pub(super) fn new(output: Output) -> anyhow::Result<ExitCode> {
    let key = MasterKey::generate(&OsRandom);
    let key = key.expose_secret();
    output.print(&json!({ "master_key": key }), || key.to_owned())?;
    Ok(ExitCode::SUCCESS)
}
