//! `holdfast connector import` of very many lines: each has its report, and none is kept.

use std::time::Duration;

use holdfast_tests::{command::Installation, database::Database, service::sandbox};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    time::timeout,
};

const LINES: u64 = 100_000;
/// A build for tests on a busy machine needs half a minute.
const BOUND: Duration = Duration::from_mins(4);
/// What a hundred times as many lines may take more. They are four times as long, and so are their reports.
const MORE_KIB: u64 = 16 * 1024;
/// What a connector carries along.
const NOTE: &str = "a note of an older system that nobody reads any more, and that makes a line as long as lines are";

/// Two in a hundred are new, ten are there already by then, and the others are wrong in one of six ways.
fn line(number: u64) -> String {
    let tokens = format!("\"refresh_token\":\"zd_rt_{number:058}\",\"extras\":{{\"note\":\"{NOTE} {NOTE}\"}}");
    let desk = |number: u64, more: &str| {
        format!("{{\"provider\":\"zendesk\",\"account\":\"desk{number}\",\"credential\":{{{tokens}{more}}}}}")
    };
    let hundred = number / 100 * 100;
    match number % 100 {
        0 | 1 => desk(number, ""),
        2..12 => desk(hundred + number % 2, ""),
        rest => match rest % 6 {
            0 => desk(number, "").replace("}}", ""),
            1 => desk(number, "").replace("zendesk", "fax"),
            2 => desk(number, "").replace("desk", "a b"),
            3 => desk(number, ",\"expires_at\":\"2020-04-01T00:00:00Z\"").replace("refresh_token", "access_token"),
            4 => desk(number, ",\"secret\":\"zd_rt_in_the_wrong_place\""),
            _ => desk(number, "").replacen('{', "{\"alias\":\"con_1\",", 1),
        },
    }
}

fn expected(number: u64) -> &'static str {
    match number % 100 {
        0 | 1 => "imported",
        2..12 => "unchanged",
        _ => "failed",
    }
}

/// Has the first `count` lines imported, holds each report against what is expected, and tells the most memory that it took.
async fn import(here: &Installation, count: u64) -> (String, u64) {
    let mut child = here.spawn(&["connector", "import", "--json"]);
    let status = format!("/proc/{}/status", child.id().unwrap());
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let fed = tokio::spawn(async move {
        for number in 0..count {
            stdin.write_all(format!("{}\n", line(number)).as_bytes()).await.unwrap();
        }
    });
    let (mut reports, mut peak) = (BufReader::new(stdout).lines(), 0);
    for number in 0..count {
        let report = reports.next_line().await.unwrap().unwrap_or_else(|| panic!("line {number} has no report"));
        let report: Value = serde_json::from_str(&report).unwrap();
        let told = (report["line"].as_u64(), report["status"].as_str());
        assert_eq!(told, (Some(number + 1), Some(expected(number))), "{report}");
        assert!(!report.to_string().contains("zd_rt_"), "{report}");
        // The last batches are reported while it is there still.
        if number % 1000 == 0 {
            peak = peak.max(high_water_kib(&std::fs::read_to_string(&status).unwrap_or_default()));
        }
    }
    assert_eq!(reports.next_line().await.unwrap(), None, "there are as many reports as lines");
    fed.await.unwrap();
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    (String::from_utf8(ended.stderr).unwrap(), peak)
}

fn high_water_kib(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_lines_are_reported_one_by_one_and_none_is_kept() {
    let (db, sandbox) = (Database::sqlite(), sandbox().await);
    let here = Installation::new(&db, &sandbox);
    let _made = here.run(&["user", "create", "--org", "Acme", "--email", "ada@example.com"]).await.done();

    let (few, least) = import(&here, LINES / 100).await;
    db.execute("DELETE FROM connectors").await;
    let (all, most) = timeout(BOUND, import(&here, LINES)).await.expect("it ends");

    assert!(few.ends_with("20 imported, 100 unchanged, 880 failed\n"), "{few}");
    assert!(all.ends_with("2000 imported, 10000 unchanged, 88000 failed\n"), "{all}");
    assert!(least > 0 && most < least + MORE_KIB, "{LINES} lines took {most} KiB, a hundredth of them {least} KiB");
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 2000);
}
