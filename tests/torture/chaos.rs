//! The driver: what goes wrong, drawn by a seed.

use std::{path::Path, sync::atomic::Ordering, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream::FuturesUnordered};
use holdfast_sandbox::Canned;
use holdfast_tests::wait::{pause, uptime};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::{
    Dice,
    stage::{LEASE, Slot, Stage},
};

/// Replicas in trouble at the same time, of four.
const AT_ONCE: usize = 2;
/// Between two crashes of the database: its recovery takes a while.
const BETWEEN_CRASHES: Duration = Duration::from_secs(45);

impl Stage {
    /// Whether the database was left alone lately.
    pub(crate) fn is_calm(&self) -> bool {
        self.database_troubled.load(Ordering::SeqCst) == 0
    }
}

/// Drives until it is over; then ends what it has begun.
pub(crate) async fn drive(stage: &Stage, seed: u64, over: CancellationToken) {
    let mut dice = Dice::new(seed.wrapping_mul(31));
    let mut under_way: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
    let mut crashed = uptime();
    while !over.is_cancelled() {
        let turn = pause(dice.time(300, 1500));
        tokio::pin!(turn);
        loop {
            tokio::select! {
                () = &mut turn => break,
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
            }
        }
        match dice.below(10) {
            0..5 => {
                let place = dice.below(stage.slots.len());
                let troubled = stage.slots.iter().filter(|slot| slot.troubled.load(Ordering::SeqCst) > 0).count();
                if stage.slots[place].troubled.load(Ordering::SeqCst) == 0 && troubled < AT_ONCE {
                    under_way.push(harm(stage, &stage.slots[place], Dice::new(dice.roll())).boxed_local());
                }
            }
            5..9 => annoy(stage, &mut dice),
            _ if uptime() - crashed > BETWEEN_CRASHES => {
                crashed = uptime();
                under_way.push(crash_database(stage).boxed_local());
            }
            _ => {}
        }
    }
    while under_way.next().await.is_some() {}
}

/// Something happens to one replica.
async fn harm(stage: &Stage, slot: &Slot, mut dice: Dice) {
    let _trouble = slot.trouble();
    let (what, work): (_, LocalBoxFuture<'_, ()>) = match dice.below(8) {
        0..2 => ("killed", killed(stage, slot, dice.time(100, 6000)).boxed_local()),
        2 => ("stalled", stalled(stage, slot, dice.time(500, 2000)).boxed_local()),
        3 => ("stalled for longer than a lease", stalled(stage, slot, LEASE + dice.time(500, 3000)).boxed_local()),
        4 => (
            "database cut off",
            line(|| slot.database.cut(), || slot.database.heal(), dice.time(300, 4000)).boxed_local(),
        ),
        5 => {
            let time = dice.time(500, 7000);
            ("database silent", line(|| slot.database.silence(), || slot.database.heal(), time).boxed_local())
        }
        6 => (
            "provider cut off",
            line(|| slot.provider.cut(), || slot.provider.heal(), dice.time(300, 4000)).boxed_local(),
        ),
        _ => {
            // Both: what was rotated has nowhere to go.
            let time = dice.time(500, 5000);
            ("database cut off, lifeboat gone", lifeboat_gone(slot, time).boxed_local())
        }
    };
    stage.note(what);
    work.await;
}

async fn killed(stage: &Stage, slot: &Slot, down: Duration) {
    let replica = slot.replica.lock().await.take();
    *slot.url.lock().unwrap() = None;
    if let Some(replica) = replica {
        replica.kill().await;
    }
    pause(down).await;
    stage.start(slot).await;
}

async fn stalled(stage: &Stage, slot: &Slot, time: Duration) {
    let replica = slot.replica.lock().await;
    if let Some(replica) = replica.as_ref() {
        replica.freeze();
        pause(time).await;
        replica.thaw();
        stage.woken();
    }
}

async fn line(begin: impl Fn(), end: impl Fn(), time: Duration) {
    begin();
    pause(time).await;
    end();
}

/// The folder is no folder any more, as on a disk that is gone.
async fn lifeboat_gone(slot: &Slot, time: Duration) {
    let aside = slot.lifeboat.with_extension("aside");
    let gone = std::fs::rename(&slot.lifeboat, &aside).is_ok() && std::fs::write(&slot.lifeboat, "").is_ok();
    slot.database.cut();
    pause(time).await;
    slot.database.heal();
    if gone {
        back(&slot.lifeboat, &aside);
    }
}

fn back(lifeboat: &Path, aside: &Path) {
    std::fs::remove_file(lifeboat).expect("it is the file that was put there");
    std::fs::rename(aside, lifeboat).expect("it was put aside");
}

/// Something happens at the provider, to some helpdesks.
fn annoy(stage: &Stage, dice: &mut Dice) {
    let kind = dice.below(9);
    let number = if kind == 0 { 1 } else { 1 + dice.below(12) };
    for _ in 0..number {
        let desk = &stage.connectors[dice.below(stage.connectors.len())].desk;
        match kind {
            0 => {
                stage.note("grant revoked by its owner");
                desk.revoke(None);
            }
            1 => {
                stage.note("answer lost after a rotation");
                desk.trouble(|faults| faults.lose_next_answer = 1);
            }
            2 => {
                stage.note("hung up before anything");
                desk.trouble(|faults| faults.drop_before = 2);
            }
            3 => {
                stage.note("refused for no reason, once");
                desk.trouble(|faults| faults.refuse_next = 1);
            }
            4 => {
                stage.note("answers late");
                let late = dice.time(500, 4500);
                desk.trouble(|faults| faults.delay_after_ms = u64::try_from(late.as_millis()).unwrap());
            }
            5 => {
                stage.note("answers 503");
                let answer = Canned::new(503, "<html>busy</html>").content_type("text/html").for_secs(4);
                desk.trouble(|faults| faults.token_answer = Some(answer));
            }
            6 => {
                stage.note("access tokens ended early");
                desk.expire_access_tokens();
            }
            _ => {
                stage.note("calm again");
                desk.calm();
            }
        }
    }
}

/// The death of one server process makes PostgreSQL end all, and recover from its log.
async fn crash_database(stage: &Stage) {
    stage.database_troubled.fetch_add(1, Ordering::SeqCst);
    stage.note("database server crashed");
    let sessions = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let sessions = stage.cluster.database.rows::<(i32,)>(sessions).await;
    if let Some(pid) = sessions.first().and_then(|(pid,)| Pid::from_raw(*pid)) {
        kill_process(pid, Signal::KILL).expect("it is a process of the test's server");
    }
    pause(Duration::from_secs(10)).await;
    stage.database_troubled.fetch_sub(1, Ordering::SeqCst);
}
