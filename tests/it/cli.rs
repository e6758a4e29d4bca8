//! The command line, as processes: what it prints where, how it ends, and what it says when something is wrong.

use std::{sync::Arc, time::Duration};

use holdfast_core::{ports::Clock as _, testkit::ManualClock};
use holdfast_sandbox::Sandbox;
use holdfast_tests::{
    browser::{Browser, http},
    command::{Ended, Installation},
    database::Database,
    days::deadline,
    on_both,
    redis::Redis,
    service::{import_body, sandbox},
    wait::until,
};
use serde_json::{Value, json};

on_both! {
    a_day_of_an_operator,
    a_migration_is_run_by_command,
    a_forgotten_password_is_set_by_command,
    people_come_as_members_and_go_but_for_the_last_owner,
    a_revoked_key_stops_at_once_while_serving,
    a_wrong_master_key_stops_the_start,
    doctor_says_what_is_wrong_and_what_to_do,
    the_schema_is_migrated_by_hand_too,
    a_stopped_service_has_ended_well,
}

struct Place {
    here: Installation,
    sandbox: Arc<Sandbox>,
    db: Arc<Database>,
}

async fn place(db: &Arc<Database>) -> Place {
    let sandbox = sandbox().await;
    Place { here: Installation::new(db, &sandbox), sandbox, db: Arc::clone(db) }
}

impl Place {
    async fn run(&self, line: &str) -> Ended {
        self.here.run(&line.split(' ').collect::<Vec<_>>()).await
    }

    async fn org(&self) {
        let _made = self.run("user create --org Acme --email ada@example.com").await.done();
    }

    async fn key(&self) -> String {
        let scopes = "connectors:read connectors:write tokens:read";
        self.run(&format!("key create --org Acme --name ci --scope {scopes}")).await.done().out.trim().to_owned()
    }

    async fn import(&self, account: &str) -> String {
        let line = import_body(&self.sandbox.create_helpdesk(account).unwrap()).to_string();
        let ended = self.here.run_with(&["connector", "import", "--json"], &line).await.done();
        ended.json()["detail"].as_str().unwrap().to_owned()
    }
}

async fn status(base: &str, path: &str, key: &str) -> u16 {
    http().get(format!("{base}{path}")).bearer_auth(key).send().await.unwrap().status().as_u16()
}

async fn a_migration_is_run_by_command(db: Arc<Database>) {
    let place = place(&db).await;
    place.org().await;
    assert_eq!(place.run("migration list").await.done().out, "none\n");
    let day = deadline();
    let dated = format!("migration start zendesk --deadline {day}");
    let today = format!("migration start zendesk --deadline {}", ManualClock::new().now().date_naive());
    for (line, words) in [
        ("migration start zendesk --dry-run", "nobody has to act: no connector of zendesk is connected"),
        ("migration start nowhere", "there is no provider \"nowhere\"; there are: "),
        ("migration start zendesk", "by when? Say the last day to reconnect on, such as --deadline 2027-04-01"),
        (&dated, "why? People are asked to act: say it to them in a line"),
        ("migration start zendesk --deadline soon", "\"soon\" is not a day; the deadline is one such as 2027-04-01"),
        ("migration start zendesk --deadline 2020-04-01", "the deadline 2020-04-01 is not ahead"),
        (
            &today,
            "is not ahead: it is the last day to reconnect on, and whoever is told today needs time; the earliest is ",
        ),
        (
            "migration start zendesk --deadline 9999-12-31 --dry-run",
            "the deadline 9999-12-31 is more than 10 years ahead, and nobody would act by it; the latest is ",
        ),
        ("migration show mig_1", "there is no migration mig_1; `holdfast migration list` shows them"),
        ("migration end mig_1", "there is no migration mig_1; `holdfast migration list` shows them"),
    ] {
        let ended = place.run(line).await;
        assert!(ended.one_line(1).contains(words), "{line}: {ended:?}");
    }
    let long = "x".repeat(301);
    let refused = place.run(&format!("{dated} --reason {long}")).await;
    assert!(refused.one_line(1).contains("the reason is one line of at most 300 characters"), "{refused:?}");
    let id = place.import("acme").await;
    let refused = place.run("migration start zendesk --only-endless --dry-run").await;
    assert!(refused.one_line(1).contains("works with a token that has no end"), "{refused:?}");
    let would = place.run("migration start zendesk --dry-run").await.done();
    assert_eq!(would.out, "would ask for connectors: 1, organisations: 1; nothing was changed\n");

    let start = ["migration", "start", "zendesk", "--deadline", &day, "--reason", "old tokens stop", "--json"];
    let started = place.here.run(&start).await.done().json();

    assert_eq!((&started["connectors"], &started["open"], &started["orgs"]), (&json!(1), &json!(1), &json!(1)));
    let migration = started["id"].as_str().unwrap();
    let again = place.here.run(&start).await;
    assert!(
        again.one_line(1).contains(&format!("end it first with `holdfast migration end {migration}`")),
        "{again:?}"
    );
    let list = place.run("migration list").await.done();
    assert!(list.out.contains(migration) && list.out.contains(&day), "{list:?}");
    let shown = place.run(&format!("migration show {migration}")).await.done();
    for words in
        [&format!("zendesk: 0 of 1 done, by {day}"), "why: old tokens stop", &id, &format!("/connectors/{id}"), "Acme"]
    {
        assert!(shown.out.contains(words), "{words:?} is not in {shown:?}");
    }
    let ended = place.run(&format!("migration end {migration}")).await.done();
    assert_eq!(ended.out, format!("ended {migration}; not reconnected: 1\n"));
    let shown = place.run(&format!("migration show {migration}")).await.done();
    assert!(shown.out.contains("Ended without these") && !shown.out.contains("To be reconnected"), "{shown:?}");
    let shown = place.run(&format!("migration show {migration} --json")).await.done().json();
    assert_eq!((&shown["open"], &shown["must_reconnect"]), (&json!(0), &json!([])), "nobody has to act: {shown}");
    assert_eq!(shown["not_reconnected"][0]["id"], id);
    let twice = place.run(&format!("migration end {migration}")).await;
    assert!(twice.one_line(1).contains("has ended already"), "{twice:?}");
}

async fn a_day_of_an_operator(db: Arc<Database>) {
    let place = place(&db).await;
    let user = ["user", "create", "--org", "Acme", "--email", "Ada@Example.com", "--operator", "--password-stdin"];

    let short = place.here.run_with(&user, "short\n").await;
    assert_eq!(short.one_line(1), "holdfast: a password has at least 8 characters; a few words make a good one.");
    let no_org = place.run("key create --org Acme --name ci --scope tokens:read").await;
    assert!(no_org.one_line(1).contains("there is no organisation \"Acme\"; `holdfast user create"), "{no_org:?}");
    let made = place.here.run_with(&user, "correct horse battery staple\n").await.done();
    assert!(made.out.starts_with("created user user_"), "{made:?}");
    let twice = place.here.run_with(&user, "correct horse battery staple\n").await;
    assert!(twice.one_line(1).contains("has a person with the address Ada@Example.com already"), "{twice:?}");
    let no_address = place.run("user create --org Acme --email ada").await;
    assert!(no_address.one_line(1).contains("is not an e-mail address"), "{no_address:?}");

    let key = place.run("key create --org Acme --name ci --scope connectors:read tokens:read").await.done();
    assert!(key.out.starts_with("hf_") && key.out.trim().len() == 46 && key.out.lines().count() == 1, "{key:?}");
    assert_eq!(key.err, "");
    let as_json = place.run("key create --org Acme --name two --scope tokens:read --json").await.done().json();
    assert!(as_json["key"].as_str().unwrap().starts_with("hf_") && as_json["id"].is_string(), "{as_json}");
    let unknown = place.run("key create --org Acme --name x --scope everything").await;
    assert!(
        unknown.one_line(1).contains("there is no scope \"everything\"; there are: connectors:read"),
        "{unknown:?}"
    );
    let list = place.run("key list").await.done();
    assert!(list.out.starts_with("ID") && list.out.contains("connectors:read,tokens:read"), "{list:?}");
    let keys = place.run("key list --org Acme --json").await.done().json();
    assert_eq!(keys.as_array().unwrap().len(), 2);
    assert!(keys[0].get("key").is_none() && keys[0].get("hash").is_none(), "{keys}");
    assert!(place.run("key revoke key_unknown").await.one_line(1).contains("`holdfast key list` shows them"));

    assert_eq!(place.run("connector list").await.done().out, "none\n");
    assert_eq!(place.run("connector list --json").await.done().json(), json!([]));
    let id = place.import("acme").await;
    let list = place.run("connector list").await.done();
    assert!(list.out.contains(&id) && list.out.contains("connected") && list.out.contains("HEALTH"), "{list:?}");
    let shown = place.run(&format!("connector show {id} --json")).await.done().json();
    assert_eq!((&shown["id"], &shown["health"]), (&json!(id), &json!("connected")));
    let tested = place.run(&format!("connector test {id}")).await.done();
    assert!(tested.out.starts_with("works: acme.zendesk.com as Ada"), "{tested:?}");
    place.sandbox.helpdesk("acme").unwrap().revoke(None);
    let tested = place.run(&format!("connector test {id}")).await;
    assert_eq!(tested.code, Some(1), "{tested:?}");
    assert!(tested.out.starts_with("does not work: ") && tested.out.contains("(health: auth_failed)"), "{tested:?}");
    let tested = place.run(&format!("connector test {id} --json")).await;
    assert_eq!((tested.code, &tested.json()["ok"]), (Some(1), &json!(false)));
    for command in ["show", "test"] {
        let unknown = place.run(&format!("connector {command} con_unknown")).await;
        assert!(unknown.one_line(1).contains("`holdfast connector list` shows them"), "{unknown:?}");
    }
    let said = String::from_utf8(place.here.said()).unwrap();
    assert!(!said.contains("correct horse battery staple"));
}

async fn people_come_as_members_and_go_but_for_the_last_owner(db: Arc<Database>) {
    let place = place(&db).await;
    let create = ["user", "create", "--org", "Acme", "--password-stdin", "--email"];
    let add = async |email: &str| {
        let line: Vec<_> = create.iter().copied().chain([email]).collect();
        place.here.run_with(&line, "correct horse battery staple\n").await.done().out
    };
    assert!(add("ada@example.com").await.trim_end().ends_with(", owner"));
    assert!(add("bob@example.com").await.trim_end().ends_with(", member"));
    let server = place.here.serve().await;
    let bob = Browser::new();
    let form = bob.open(&format!("{}/sign-in", server.base)).await.form("/sign-in");
    let form = form.with("email", "bob@example.com").with("password", "correct horse battery staple");
    assert_eq!(bob.send_form(&form).await.status, 303);

    let last = place.run("user remove --email ada@example.com").await;
    let gone = place.run("user remove --email Bob@example.com").await.done();
    let twice = place.run("user remove --email bob@example.com").await;

    assert!(last.one_line(1).contains("is the last owner of \"Acme\"") && last.err.contains("set-role"), "{last:?}");
    assert!(gone.out.starts_with("removed user user_"), "{gone:?}");
    assert!(twice.one_line(1).contains("nobody has the address"), "{twice:?}");
    assert_eq!(bob.get(&format!("{}/settings", server.base)).await.status, 303, "he is signed out");
}

async fn a_forgotten_password_is_set_by_command(db: Arc<Database>) {
    let place = place(&db).await;
    for (org, email) in [("Acme", "ada@example.com"), ("Globex", "ada@example.com"), ("Acme", "bob@example.com")] {
        let made = ["user", "create", "--org", org, "--email", email, "--role", "owner", "--password-stdin"];
        let _made = place.here.run_with(&made, "forgotten by tomorrow\n").await.done();
    }
    let server = place.here.serve().await;
    let sign_in = async |browser: &Browser, email: &str, password: &str| {
        let form = browser.open(&format!("{}/sign-in", server.base)).await.form("/sign-in");
        browser.send_form(&form.with("email", email).with("password", password)).await.status
    };
    let status = async |browser: &Browser| browser.get(&format!("{}/settings", server.base)).await.status;
    let (bob, ada) = (Browser::new(), Browser::new());
    assert_eq!(sign_in(&bob, "bob@example.com", "forgotten by tomorrow").await, 303);
    assert_eq!(sign_in(&ada, "ada@example.com", "forgotten by tomorrow").await, 303);
    for _ in 0..5 {
        assert_eq!(sign_in(&Browser::new(), "bob@example.com", "was it this one").await, 422);
    }
    assert_eq!(sign_in(&Browser::new(), "bob@example.com", "or this one").await, 429);

    // Through the running server where there is one: who was signed in is not, and nothing holds up the new password.
    let set = ["user", "set-password", "--email", "Bob@Example.com", "--password-stdin"];
    let said = place.here.run_with(&set, "a better one to remember\n").await.done();

    assert!(said.out.starts_with("set the password of user user_") && said.out.lines().count() == 1, "{said:?}");
    assert_eq!((status(&bob).await, status(&ada).await), (303, 200));
    assert_eq!(sign_in(&Browser::new(), "bob@example.com", "forgotten by tomorrow").await, 422);
    assert_eq!(sign_in(&Browser::new(), "bob@example.com", "a better one to remember").await, 303);

    // Without one it makes one, and prints it alone.
    let made = place.run("user set-password --email ada@example.com --org Globex").await.done();
    let password = made.out.trim_end().to_owned();
    assert!(password.len() == 27 && made.out.lines().count() == 1 && made.err.is_empty(), "{made:?}");
    let over = Browser::new();
    assert_eq!(sign_in(&over, "ada@example.com", &password).await, 303);
    assert!(over.open(&format!("{}/settings", server.base)).await.text.contains("Globex"));
    assert_eq!(status(&ada).await, 200, "her other organisation has its own");
    let json = place.run("user set-password --email ada@example.com --org Acme --json").await.done().json();
    assert_eq!(json["password"].as_str().unwrap().len(), 27);
    assert_eq!(status(&ada).await, 303);

    let short = place.here.run_with(&set, "short\n").await;
    assert!(short.one_line(1).starts_with("holdfast: a password has at least 8 characters"), "{short:?}");
    let several = place.run("user set-password --email ada@example.com").await;
    assert!(
        several.one_line(1).ends_with("is in several organisations; say which with --org: Acme, Globex"),
        "{several:?}"
    );
    let nobody = place.run("user set-password --email eve@example.com").await;
    assert!(nobody.one_line(1).contains("nobody has the address eve@example.com; `holdfast user list`"), "{nobody:?}");
    let elsewhere = place.run("user set-password --email bob@example.com --org Globex").await;
    assert!(elsewhere.one_line(1).contains("nobody in \"Globex\" has the address"), "{elsewhere:?}");

    // Or they set it themselves, by a link that is handed over.
    let link = place.run("user reset-password --email bob@example.com").await.done();
    let path = link.out.trim_end().rsplit_once("/reset/").map(|(_, token)| format!("/reset/{token}")).unwrap();
    assert!(link.out.lines().count() == 1, "{link:?}");
    assert_eq!(Browser::new().get(&format!("{}{path}", server.base)).await.status, 200);

    // A role is another matter that only they can mend.
    let keys = format!("{}/settings/keys", server.base);
    let bob = Browser::new();
    assert_eq!(sign_in(&bob, "bob@example.com", "a better one to remember").await, 303);
    assert_eq!(bob.get(&keys).await.status, 200);
    let said = place.run("user set-role --email bob@example.com --role member").await.done();
    assert!(said.out.starts_with("user user_") && said.out.ends_with(" is member now\n"), "{said:?}");
    assert_eq!((bob.get(&keys).await.status, status(&bob).await), (403, 200), "at once, and without signing in again");

    let list = place.run("user list").await.done();
    assert!(list.out.starts_with("ID") && list.out.contains("bob@example.com"), "{list:?}");
    let people = place.run("user list --org Acme --json").await.done().json();
    let emails: Vec<_> = people.as_array().unwrap().iter().map(|person| person["email"].as_str().unwrap()).collect();
    assert_eq!(emails, ["ada@example.com", "bob@example.com"]);
    assert_eq!((&people[0]["role"], &people[0]["password"]), (&json!("owner"), &json!("set")));
    assert!(!list.out.contains("argon2") && !people.to_string().contains("argon2"));
}

async fn a_revoked_key_stops_at_once_while_serving(db: Arc<Database>) {
    let place = place(&db).await;
    place.org().await;
    let server = place.here.serve().await;
    let (key, other) = (place.key().await, place.key().await);
    let keys = place.run("key list --json").await.done().json();
    assert_eq!(status(&server.base, "/api/v1/connectors", &key).await, 200);
    assert_eq!(status(&server.base, "/api/v1/connectors", &other).await, 200);

    let revoked = place.run(&format!("key revoke {}", keys[0]["id"].as_str().unwrap())).await.done();

    assert!(revoked.out.starts_with("revoked key_"), "{revoked:?}");
    let now = async || {
        (
            status(&server.base, "/api/v1/connectors", &key).await,
            status(&server.base, "/api/v1/connectors", &other).await,
        )
    };
    if db.is_sqlite() {
        assert_eq!(now().await, (401, 200), "the command asked the server itself");
    }
    // On PostgreSQL another process did it, and the server is told.
    until("the key is refused", now, |seen| *seen == (401, 200)).await;
    let list = place.run("key list --json").await.done().json();
    assert!(list[0]["revoked_at"].is_string() && list[1]["revoked_at"].is_null(), "{list}");
    let (status, log) = server.terminate().await;
    assert_eq!(status.code(), Some(0), "{log}");
}

async fn a_wrong_master_key_stops_the_start(db: Arc<Database>) {
    let place = place(&db).await;
    place.org().await;
    let id = place.import("acme").await;
    let another = place.run("master-key new").await.done();
    assert!(
        another.out.starts_with("hfmk_") && another.out.lines().count() == 1 && another.err.is_empty(),
        "{another:?}"
    );
    place.here.write("master.key", &another.out);

    for command in ["serve", "connector list"] {
        let refused = place.run(command).await;
        let line = refused.one_line(1);
        assert!(line.contains("master key"), "{command}: {line}");
    }
    for (junk, what) in [("hfmk_short", "32 bytes in base64"), ("", "master_key")] {
        place.here.write("master.key", junk);
        let refused = place.run("serve").await;
        assert!(refused.one_line(1).contains(what), "{refused:?}");
    }
    let right = secrecy::ExposeSecret::expose_secret(&place.db.master_key).to_owned();
    place.here.write("master.key", &format!("{right}\n"));
    let shown = place.run(&format!("connector show {id} --json")).await.done().json();
    assert_eq!(shown["credential"]["kind"], "oauth2", "nothing was spoiled");
}

async fn doctor_says_what_is_wrong_and_what_to_do(db: Arc<Database>) {
    let place = place(&db).await;
    place.org().await;
    let findings = |ended: &Ended| -> Vec<(String, bool)> {
        let all = ended.json();
        let all = all.as_array().unwrap().iter();
        all.map(|one| (one["check"].as_str().unwrap().to_owned(), one["ok"].as_bool().unwrap())).collect()
    };

    let well = place.run("doctor --json").await.done();
    let names: Vec<_> = findings(&well).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "configuration",
            "database",
            "schema",
            "master key",
            "clock",
            "lifeboat",
            "mail server",
            "OAuth app",
            "OAuth app",
            "public URL"
        ]
    );
    assert!(findings(&well).iter().all(|(_, ok)| *ok), "{well:?}");
    let words = place.run("doctor").await.done();
    assert!(words.out.lines().all(|line| line.starts_with("ok    ")), "{words:?}");

    for (name, value, check, remedy) in [
        ("HOLDFAST_MASTER_KEY_FILE", "missing.key", "configuration", "correct that key"),
        ("HOLDFAST_LISTEN", "nowhere", "configuration", "correct that key"),
        ("HOLDFAST_DATABASE__URL", "postgres://nobody@127.0.0.1:1/none", "database", "check database.url"),
        ("HOLDFAST_LIFEBOAT__DIR", "master.key", "lifeboat", "make it a folder"),
        ("HOLDFAST_LIFEBOAT__DIR", "/proc/lifeboat", "lifeboat", "make it a folder"),
    ] {
        let ill = place.here.with(name, value);
        let ended = ill.run(&["doctor", "--json"]).await;
        assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
        assert!(findings(&ended).contains(&(check.to_owned(), false)), "{name}: {ended:?}");
        let words = ill.run(&["doctor"]).await;
        assert_eq!(words.code, Some(1), "{words:?}");
        assert!(words.out.contains("WRONG") && words.out.contains(&format!("\n      -> {remedy}")), "{words:?}");
    }
    let here = place.here.with("HOLDFAST_LOCK__BACKEND", "redis");
    let gone = here.with("HOLDFAST_LOCK__REDIS_URL", "redis://:hush@127.0.0.1:1/0").run(&["doctor"]).await;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.out.contains("WRONG Redis: redis://127.0.0.1:1/0: ") && gone.out.contains("-> check lock.redis_url"));
    assert!(!gone.out.contains("hush") && !gone.err.contains("hush"), "{gone:?}");
    let redis = Redis::start().await;
    let there = here.with("HOLDFAST_LOCK__REDIS_URL", &redis.url()).run(&["doctor", "--json"]).await;
    assert_eq!(there.code, Some(0), "{there:?}");
    assert!(findings(&there).contains(&("Redis".to_owned(), true)) && !there.out.contains(redis.password()));

    if !db.is_sqlite() {
        // In sessions to come.
        let off =
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$";
        db.execute(off).await;
        let hasty = place.run("doctor").await;
        assert_eq!(hasty.code, Some(1), "{hasty:?}");
        assert!(hasty.out.contains("WRONG durability") && hasty.out.contains("-> set synchronous_commit = on"));
        db.execute(&off.replace("= off", "= on")).await;
    }

    let own = "INSERT INTO own_oauth_apps (org_id, provider, client_id, secret_expires_at, changed_at) \
               SELECT id, 'zendesk', 'own', '2020-01-01T00:00:00+00:00', '2020-01-01T00:00:00+00:00' FROM orgs";
    db.execute(own).await;
    let counted = place.run("doctor").await.done();
    let line = "ok    own OAuth apps: 1 of organisations; of 1 the client secret has ended or ends within 30 days";
    assert!(counted.out.contains(line), "{counted:?}");

    let another = place.run("master-key new").await.done();
    place.here.write("master.key", &another.out);
    let ended = place.run("doctor --json").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(findings(&ended).contains(&("master key".to_owned(), false)), "{ended:?}");
}

async fn the_schema_is_migrated_by_hand_too(db: Arc<Database>) {
    let place = place(&db).await;

    let before = place.run("migrate status").await.done();
    assert!(before.out.lines().all(|line| line.contains("pending")), "{before:?}");
    let refused = place.run("serve --no-migrate").await;
    assert!(refused.one_line(1).len() > 20, "{refused:?}");
    let done = place.run("migrate").await.done();
    assert!(done.out.contains("0 of ") && !done.out.contains("pending m"), "{done:?}");
    let again = place.run("migrate --json").await.done().json();
    assert!(again.as_array().unwrap().iter().all(|step| step["applied"] == true), "{again}");
    let after = place.run("migrate status --json").await.done().json();
    assert_eq!(after, again);
}

async fn a_stopped_service_has_ended_well(db: Arc<Database>) {
    let place = place(&db).await;
    place.org().await;
    let server = place.here.serve().await;
    let key = place.key().await;
    let id = place.import("acme").await;
    let acme = place.sandbox.helpdesk("acme").unwrap();
    let base = server.base.clone();
    let token = async |end: &str, body: Option<Value>| -> Value {
        let url = format!("{base}/api/v1/connectors/{id}/token{end}");
        let request = match body {
            Some(body) => http().post(url).json(&body),
            None => http().get(url),
        };
        let response = request.bearer_auth(&key).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json().await.unwrap()
    };
    let first = token("", None).await;
    acme.trouble(|faults| faults.delay_after_ms = 700);

    let rejected = json!({ "access_token": first["access_token"] });
    let (second, (ended, log)) = tokio::join!(token("/rejected", Some(rejected)), async {
        until("the token is rotated", async || acme.counters().rotations, |count| *count == 1).await;
        server.terminate().await
    });

    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(log.contains("stopping: waiting for what is under way") && log.contains("stopped"), "{log}");
    assert!(acme.accepts(second["access_token"].as_str().unwrap()), "the exchange was not cut off");
    let shown = place.run(&format!("connector show {id} --json")).await.done().json();
    assert_eq!(shown["credential"]["version"], 2, "{shown}");
}

/// Whatever is set wrongly is told in one line that names it.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_stop_the_start_with_one_line() {
    let db = Arc::new(Database::sqlite());
    let place = place(&db).await;

    for (name, value, parts) in [
        ("HOLDFAST_LISTEN", "nowhere", &["HOLDFAST_LISTEN", "listen"][..]),
        ("HOLDFAST_COLOUR", "red", &["HOLDFAST_COLOUR", "there is no such key"]),
        ("HOLDFAST_REFRESH__LEASE_SECS", "5", &["refresh.lease_secs", "refresh.exchange_timeout_secs"]),
        ("HOLDFAST_REFRESH__BATCH", "many", &["HOLDFAST_REFRESH__BATCH", "refresh.batch"]),
        ("HOLDFAST_SHUTDOWN__DRAIN_SECS", "1", &["shutdown.drain_secs", "refresh.exchange_timeout_secs"]),
        ("HOLDFAST_DATABASE__URL", "mysql://here", &["database.url", "sqlite://FILE"]),
        ("HOLDFAST_DATABASE__URL", "postgres://nobody:pass-w0rd@127.0.0.1:1/none", &["database"]),
        ("HOLDFAST_DATABASE__URL", "sqlite:///nowhere/at/all.sqlite", &["database"]),
        ("HOLDFAST_MASTER_KEY_FILE", "missing.key", &["master_key_file", "missing.key"]),
        ("HOLDFAST_PUBLIC_URL", "https://hub.example.test", &["network.allow_private_hosts", "public_url"]),
        ("HOLDFAST_LOG__FORMAT", "loud", &["HOLDFAST_LOG__FORMAT", "pretty"]),
        ("HOLDFAST_PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", "http://evil.example", &["base_url_override"]),
    ] {
        let ended = place.here.with(name, value).run(&["serve"]).await;
        let line = ended.one_line(1);
        for part in parts {
            assert!(line.contains(part), "{name}={value}: {part} is not in {line}");
        }
        assert!(!line.contains("pass-w0rd"), "{line}");
    }
    place.here.write("holdfast.toml", "[refresh]\nlease = 30\n");
    let ended = place.run("serve").await;
    assert!(ended.one_line(1).contains("holdfast.toml: refresh.lease: there is no such key"), "{ended:?}");
    place.here.write("holdfast.toml", "[refresh\n");
    let ended = place.run("serve").await;
    assert!(ended.one_line(1).contains("holdfast.toml"), "{ended:?}");
    let ended = place.run("serve --config elsewhere.toml").await;
    assert!(ended.one_line(1).contains("elsewhere.toml"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_key_nothing_is_served_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let here = Installation::empty(folder.path());

    let ended = here.run(&["serve", "--listen", "127.0.0.1:0"]).await;

    let line = ended.one_line(1);
    assert!(line.contains("no master key is set") && line.contains("`holdfast master-key new`"), "{line}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let key = here.run(&["master-key", "new", "--json"]).await.done().json();
    let served = here
        .with("HOLDFAST_MASTER_KEY", key["master_key"].as_str().unwrap())
        .with("HOLDFAST_LISTEN", "127.0.0.1:0")
        .serve()
        .await;
    let (status, log) = served.terminate().await;
    assert_eq!(status.code(), Some(0), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_use_ends_with_2_and_help_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let here = Installation::empty(folder.path());

    for line in ["", "fly", "serve --listen nowhere", "key create --org A", "connector show", "user create --org A"] {
        let args: Vec<_> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let ended = here.run(&args).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{line}: {ended:?}");
        assert!(ended.err.contains("Usage: holdfast") || ended.err.contains("try '--help'"), "{line}: {ended:?}");
    }
    for line in ["--help", "serve --help", "connector import --help", "--version"] {
        let ended = here.run(&line.split(' ').collect::<Vec<_>>()).await.done();
        assert!(ended.err.is_empty() && ended.out.contains("holdfast"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_occupied_port_is_told_before_anything_is_opened() {
    let db = Arc::new(Database::sqlite());
    let place = place(&db).await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let ended = place.run(&format!("serve --listen {address}")).await;

    let line = ended.one_line(1);
    assert!(line.contains(&format!("cannot listen on {address}")) && line.contains("--listen ADDRESS:PORT"), "{line}");
    assert!(!db.path("holdfast.sqlite").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_file_is_refused_and_harms_nothing() {
    let db = Arc::new(Database::sqlite());
    let place = place(&db).await;
    place.org().await;
    let server = place.here.serve().await;
    let key = place.key().await;

    let second = place.run("serve").await;

    assert!(second.one_line(1).contains("another process serves this database"), "{second:?}");
    assert_eq!(status(&server.base, "/api/v1/connectors", &key).await, 200);
    let _listed = place.run("connector list").await.done();
    let (ended, log) = server.terminate().await;
    assert_eq!(ended.code(), Some(0), "{log}");
    let third = tokio::time::timeout(Duration::from_secs(20), place.here.serve()).await.unwrap();
    let (ended, log) = third.terminate().await;
    assert_eq!(ended.code(), Some(0), "{log}");
}
