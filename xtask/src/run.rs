//! Child processes: each in a process group of its own, bounded in time, ended when we are told to stop.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Ctrl-C and the like end the child under way and then us in good order, so that nothing is left running.
pub(crate) fn heed_signals() -> anyhow::Result<()> {
    let stop = Arc::clone(STOP.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("could not listen for signals")?;
    }
    Ok(())
}

/// Whether we were told to stop.
pub(crate) fn stopped() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch for people; nothing here is tested by time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the step of a bounded poll")]
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(25));
}

/// Runs it to its end, with our output and no input. What it leaves behind in its process group is killed.
pub(crate) fn run(command: &mut Command, bound: Duration) -> anyhow::Result<ExitStatus> {
    let child = spawn(command.stdin(Stdio::null()))?;
    wait(child, &name(command), bound)
}

/// As [`run`]; an unsuccessful end is an error.
pub(crate) fn must(command: &mut Command, bound: Duration) -> anyhow::Result<()> {
    let status = run(command, bound)?;
    if !status.success() {
        bail!("{} ended with {status}", name(command));
    }
    Ok(())
}

/// As [`run`], with each line of its standard output.
pub(crate) fn lines(
    command: &mut Command,
    bound: Duration,
    mut line: impl FnMut(&str) + Send,
) -> anyhow::Result<ExitStatus> {
    let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let out = child.stdout.take().context("its output was asked for")?;
    thread::scope(|scope| {
        scope.spawn(move || {
            for text in BufReader::new(out).lines().map_while(Result::ok) {
                line(&text);
            }
        });
        wait(child, &name(command), bound)
    })
}

/// The whole standard output of something short; its standard error is ours.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("could not start {}", name(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", name(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no text", name(command)))
}

/// Starts it in a process group of its own.
pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    command.process_group(0).spawn().with_context(|| format!("could not start {}", name(command)))
}

/// Sends a signal, if it is still there.
pub(crate) fn signal(id: u32, signal: Signal) {
    if let Some(pid) = pid(id) {
        kill_process(pid, signal).ok();
    }
}

pub(crate) fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

/// Waits until it has ended, at most this long; `None`: it has not.
pub(crate) fn ended(child: &mut Child, bound: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let started = now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= bound {
            return Ok(None);
        }
        pause();
    }
}

fn wait(mut child: Child, name: &str, bound: Duration) -> anyhow::Result<ExitStatus> {
    let group = pid(child.id()).context("a process has an id")?;
    let started = now();
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        if stopped() {
            break Err("was interrupted".to_owned());
        }
        if started.elapsed() >= bound {
            break Err(format!("did not end within {} minutes", bound.as_secs() / 60));
        }
        pause();
    };
    if ended.is_err() {
        kill_process_group(group, Signal::TERM).ok();
        self::ended(&mut child, Duration::from_secs(5))?;
    }
    kill_process_group(group, Signal::KILL).ok();
    child.wait()?;
    match ended {
        Ok(status) => Ok(status),
        Err(what) => bail!("{name} {what}"),
    }
}

fn name(command: &Command) -> String {
    let words = command.get_args().take(4).map(|arg| arg.to_string_lossy());
    std::iter::once(command.get_program().to_string_lossy()).chain(words).collect::<Vec<_>>().join(" ")
}
