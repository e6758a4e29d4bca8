//! The tool against the sandbox's persons.

use holdfast_core::ErrorKind;
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn persons_of_an_address_come_page_by_page_and_no_others() {
    let rig = Rig::start().await;
    let api = rig.api().await;

    let first = rig.call(&api, "find_person", json!({"email": "MIRA@example.com"})).await.unwrap();
    let rest = json!({"email": "mira@example.com", "cursor": first["next_cursor"]});
    let second = rig.call(&api, "find_person", rest).await.unwrap();

    let found = [&first, &second].into_iter().flat_map(|page| page["persons"].as_array().unwrap());
    let names: Vec<_> = found.map(|person| person["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Mira Castellan", "Mira C.", "M. Castellan"]);
    assert_eq!(second["next_cursor"], json!(null));
    let nobody = rig.call(&api, "find_person", json!({"email": "nobody@example.com"})).await.unwrap();
    assert_eq!(nobody, json!({"persons": [], "next_cursor": null}));
}

#[tokio::test]
async fn bad_arguments_and_a_tool_that_there_is_not_are_refused_as_invalid() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    for arguments in [
        json!({}),
        json!({"email": "mira"}),
        json!({"email": "mira@example.com", "more": 1}),
        json!({"email": "mira@example.com", "cursor": ""}),
        json!({"email": "mira@example.com", "cursor": "made up"}),
    ] {
        let refused = rig.call(&api, "find_person", arguments.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{arguments}: {refused}");
    }
    let unknown = rig.send(&api, "find_nothing", json!({})).await.unwrap_err();
    assert!(unknown.message.contains("find_person"), "{unknown}");
}
