//! The binary `holdfast`: arguments to a call.

use std::process::ExitCode;

use clap::Parser;
use holdfast_app::{
    cli::{self, Args},
    seams,
};

#[tokio::main]
async fn main() -> ExitCode {
    seams::install_tls();
    cli::run(Args::parse()).await
}
