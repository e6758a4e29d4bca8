//! The lifeboat's folder: what comes back, what does not open, and what is wrong with it.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::PathBuf,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use holdfast_core::{
    Snapshot,
    ports::{Castaway, CredentialStore as _, Lifeboat as _, Stored},
};
use holdfast_store::{Spool, Store};
use secrecy::ExposeSecret;

use crate::harness::{TestDatabase, connect, exchange, lease, load, on_both, rotation};

on_both! {
    what_is_put_into_the_lifeboat_comes_out_as_it_was,
    what_does_not_open_is_set_aside_and_never_deleted,
    a_set_of_another_database_is_left_alone,
    a_set_can_be_kept_while_the_database_is_away,
    the_trouble_of_the_folder_is_told,
    a_full_disk_leaves_no_half_of_a_set,
    what_a_crash_cut_off_before_it_had_its_name_is_found_and_nothing_of_it_stays,
}

async fn boat(db: &TestDatabase, store: &Store) -> (Spool, Castaway) {
    let (_, id) = connect(store, "acme").await;
    let snapshot = load(store, &id).await;
    let lease = lease(store, &snapshot, "one").await;
    (store.lifeboat(folder(db)), castaway(&snapshot, exchange(&snapshot, &lease, "a")))
}

fn castaway(snapshot: &Snapshot, exchange: holdfast_core::ports::Exchange) -> Castaway {
    Castaway {
        provider: snapshot.provider.clone(),
        account: snapshot.account.clone(),
        app: snapshot.credential.app.clone(),
        exchange,
        rotation: rotation("second"),
    }
}

fn folder(db: &TestDatabase) -> PathBuf {
    db.dir.path().join("lifeboat")
}

fn names(folder: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

async fn what_is_put_into_the_lifeboat_comes_out_as_it_was(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (boat, castaway) = boat(&db, &store).await;
    assert!(boat.list().await.unwrap().is_empty(), "a folder that is not there yet is empty");

    boat.put(&castaway).await.unwrap();
    boat.put(&castaway).await.unwrap();

    let [name] = &names(&folder(&db))[..] else { panic!("{:?}", names(&folder(&db))) };
    let written = fs::read(folder(&db).join(name)).unwrap();
    for secret in ["access-second", "refresh-second"] {
        assert!(!name.contains(secret) && !String::from_utf8_lossy(&written).contains(secret));
    }
    let other = db.replica("two").await.lifeboat(folder(&db));
    let [found] = &other.list().await.unwrap()[..] else { panic!("there is one") };
    let tokens = &found.rotation.tokens;
    assert_eq!(tokens.access_token.expose_secret(), "access-second");
    assert_eq!(tokens.refresh_token.as_ref().unwrap().expose_secret(), "refresh-second");
    assert_eq!(format!("{found:?}"), format!("{castaway:?}"));
    store.begin(&found.exchange).await.unwrap();
    assert!(matches!(store.store_rotation(&found.exchange, &found.rotation).await.unwrap(), Stored::Yes(_)));
    assert_eq!((other.state().await.sets, other.state().await.unreadable), (1, 0));

    other.remove(found).await.unwrap();
    boat.remove(&castaway).await.unwrap();

    assert!(names(&folder(&db)).is_empty());
}

async fn what_does_not_open_is_set_aside_and_never_deleted(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (boat, castaway) = boat(&db, &store).await;
    boat.put(&castaway).await.unwrap();
    let name = names(&folder(&db)).remove(0);
    let good = fs::read(folder(&db).join(&name)).unwrap();
    let moved = name.replace("exch_", "exch_moved_");
    let mut damaged = good.clone();
    damaged[40] ^= 1;
    let cut = name.replace("exch_", "exch_cut_");
    for (name, content) in [(&moved, &good), (&cut, &good[..good.len() / 2].to_vec()), (&name, &damaged)] {
        fs::write(folder(&db).join(name), content).unwrap();
    }
    fs::write(folder(&db).join("notes.txt"), "what is this?").unwrap();

    assert!(boat.list().await.unwrap().is_empty());

    assert_eq!(names(&folder(&db)), ["unreadable"]);
    let mut aside = names(&folder(&db).join("unreadable"));
    aside.sort_unstable();
    let mut all = vec![name.clone(), moved, cut, "notes.txt".to_owned()];
    all.sort_unstable();
    assert_eq!(aside, all);
    assert_eq!(fs::read(folder(&db).join("unreadable").join(&name)).unwrap(), damaged);
    let state = boat.check().await;
    assert_eq!((state.sets, state.unreadable, state.trouble), (0, 4, None));
    assert!(boat.list().await.unwrap().is_empty(), "nobody looks at them again");
}

async fn a_set_of_another_database_is_left_alone(db: Arc<TestDatabase>) {
    let elsewhere = TestDatabase::sqlite();
    let (theirs, castaway) = boat(&elsewhere, &elsewhere.store().await).await;
    theirs.put(&castaway).await.unwrap();
    let ours = db.store().await.lifeboat(folder(&elsewhere));

    assert!(ours.list().await.unwrap().is_empty());

    assert_eq!(theirs.list().await.unwrap().len(), 1);
}

async fn a_set_can_be_kept_while_the_database_is_away(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (boat, castaway) = boat(&db, &store).await;
    store.shut().await.unwrap();

    boat.put(&castaway).await.unwrap();

    assert_eq!(db.replica("two").await.lifeboat(folder(&db)).list().await.unwrap().len(), 1);
}

async fn the_trouble_of_the_folder_is_told(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (good, castaway) = boat(&db, &store).await;
    assert_eq!(good.check().await.trouble, None);
    assert!(names(&folder(&db)).is_empty(), "looking leaves nothing behind");
    let file = db.dir.path().join("file");
    fs::write(&file, "no folder").unwrap();
    // No folder, and places where not even root may make one.
    for path in [file, PathBuf::from("/proc/holdfast-lifeboat"), PathBuf::from("/sys/kernel/holdfast-lifeboat")] {
        let boat = store.lifeboat(path.clone());

        let checked = boat.check().await;
        let put = boat.put(&castaway).await;

        assert!(checked.trouble.is_some(), "{} takes it", path.display());
        assert!(put.is_err());
        let after = boat.state().await;
        assert_eq!((after.taken, after.failures), (0, 1));
        assert!(after.trouble.is_some());
        assert!(boat.list().await.unwrap().is_empty(), "it counts as empty, and nothing stops");
    }
}

async fn a_full_disk_leaves_no_half_of_a_set(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (boat, castaway) = boat(&db, &store).await;
    boat.put(&castaway).await.unwrap();
    let name = names(&folder(&db)).remove(0);
    boat.remove(&castaway).await.unwrap();
    // Whatever is written there meets a disk that is full.
    symlink("/dev/full", folder(&db).join(format!(".{name}"))).unwrap();
    symlink("/dev/full", folder(&db).join(".probe")).unwrap();

    let put = boat.put(&castaway).await;
    let state = boat.check().await;

    assert!(put.is_err());
    assert!(state.trouble.unwrap().contains("No space left"));
    assert_eq!((state.sets, state.failures), (0, 1));
    assert!(names(&folder(&db)).is_empty(), "{:?}", names(&folder(&db)));
    boat.put(&castaway).await.unwrap();
    assert_eq!(boat.check().await.trouble, None);
    assert_eq!(boat.list().await.unwrap().len(), 1);
}

async fn what_a_crash_cut_off_before_it_had_its_name_is_found_and_nothing_of_it_stays(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (boat, castaway) = boat(&db, &store).await;
    boat.put(&castaway).await.unwrap();
    let name = names(&folder(&db)).remove(0);
    let at = |name: &str| folder(&db).join(name);
    let unfinished = at(&format!(".{name}"));
    let long_ago = |path: &PathBuf| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    };

    // All of it was on the disk. Whether its owner is at it still is told by its age.
    fs::rename(at(&name), &unfinished).unwrap();
    assert!(boat.list().await.unwrap().is_empty());
    assert_eq!(names(&folder(&db)), [format!(".{name}")]);
    long_ago(&unfinished);
    assert_eq!(boat.list().await.unwrap().len(), 1);
    assert_eq!(names(&folder(&db)).join(" "), name);

    // Beside one that is whole, and without content.
    fs::write(&unfinished, "half").unwrap();
    fs::write(at(".probe"), "").unwrap();
    fs::write(at(".other"), "").unwrap();
    for left in [&unfinished, &at(".probe"), &at(".other")] {
        long_ago(left);
    }
    assert_eq!(boat.list().await.unwrap().len(), 1);
    assert_eq!(names(&folder(&db)).join(" "), name);

    // Only half of it: told, and kept for whoever wants to look.
    fs::remove_file(at(&name)).unwrap();
    fs::write(&unfinished, "half").unwrap();
    long_ago(&unfinished);
    assert!(boat.list().await.unwrap().is_empty());
    assert_eq!((boat.state().await.sets, boat.state().await.unreadable), (0, 1));
}
