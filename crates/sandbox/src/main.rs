//! The sandbox as a program, for the demo and for tests of several processes.

use std::io::Write as _;
use std::net::IpAddr;
use std::process::ExitCode;

use holdfast_sandbox::{Builder, Sandbox, Scene};

const USAGE: &str = "usage: holdfast-sandbox [OPTION]...

  --port N                        port to listen on; 0, the default, takes a free one
  --ip ADDRESS                    address to bind [127.0.0.1]
  --public-url URL                how callers reach it, for links in answers
  --redirect-uri URL              one more https address to send people back to; may be repeated
  --min-expires-in SECS           shortest access token that may be asked for [300]
  --min-refresh-expires-in SECS   shortest refresh token that may be asked for [604800]
  --scene tests|demo              what helpdesks hold [tests]
  --home URL                      where its pages lead back to
  --state FILE                    keep everything there, and go on from it
  --reuse-grace SECS              a spent refresh token gets the same pair again for so long [0]
  --rate-limit N                  API calls per helpdesk and minute, 0 for no limit [700]";

#[tokio::main]
async fn main() -> ExitCode {
    let builder = match parse(std::env::args().skip(1)) {
        Ok(builder) => builder,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match builder.start().await {
        Ok(sandbox) => {
            // Whoever started us may have gone away already: that is no reason to fail.
            let mut out = std::io::stdout();
            writeln!(out, "listening on {}", sandbox.url()).ok();
            out.flush().ok();
            tokio::select! {
                () = sandbox.serve() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot listen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Builder, String> {
    fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
        text.parse().map_err(|_| format!("{name}: {text} does not fit"))
    }

    let mut builder = Sandbox::builder();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (arg, args.next()),
        };
        let value = value.ok_or_else(|| format!("{name} wants a value"))?;
        builder = match name.as_str() {
            "--port" => builder.port(number(&name, &value)?),
            "--ip" => builder.ip(number::<IpAddr>(&name, &value)?),
            "--public-url" => builder.public_url(value),
            "--scene" => match value.as_str() {
                "tests" => builder.scene(Scene::Tests),
                "demo" => builder.scene(Scene::Demo),
                other => return Err(format!("--scene: {other} is neither tests nor demo")),
            },
            "--home" => builder.home(value),
            "--state" => builder.file(value),
            "--redirect-uri" => builder.redirect_uri(value),
            "--min-expires-in" => {
                let secs = number(&name, &value)?;
                builder.with(|options| options.min_expires_in = secs)
            }
            "--min-refresh-expires-in" => {
                let secs = number(&name, &value)?;
                builder.with(|options| options.min_refresh_expires_in = secs)
            }
            "--reuse-grace" => {
                let secs = number(&name, &value)?;
                builder.with(|options| options.reuse_grace_secs = secs)
            }
            "--rate-limit" => {
                let calls = number(&name, &value)?;
                builder.with(|options| options.rate_limit = calls)
            }
            _ => return Err(format!("there is no option {name}")),
        };
    }
    Ok(builder)
}
