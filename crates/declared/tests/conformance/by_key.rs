//! The shipped files of services that give keys.

use holdfast_core::{ErrorKind, Provider, Secret};
use holdfast_sandbox::{Canned, GENERIC_KEY};
use secrecy::SecretString;

use crate::rig::Rig;

pub(crate) const COVERED: &[&str] = &["openai", "stripe"];

#[tokio::test]
async fn a_key_works_and_a_wrong_one_asks_for_a_person() {
    for (id, name) in [("openai", "support"), ("stripe", "Tidewater Supply")] {
        let rig = Rig::start(id).await;
        let api = |key: &str| rig.api_with(Secret::ApiKey(SecretString::from(key.to_owned())));

        let identity = api(GENERIC_KEY).identity().await.unwrap();
        let refused = api("wrong-key-0123").identity().await.unwrap_err();

        assert!(rig.provider.is_account(&rig.account, &identity, None), "{identity:?}");
        assert_eq!(identity.account_name, name);
        assert_eq!(refused.kind, ErrorKind::AuthFailed, "{refused}");
        assert!(refused.message.contains("Invalid API Key") && !refused.message.contains("wrong-key"), "{refused}");
    }
}

#[tokio::test]
async fn a_key_of_another_account_is_noticed_where_an_answer_names_it() {
    let rig = Rig::start("stripe").await;
    let other = Canned::new(200, r#"{"id": "acct_1999999999999999"}"#);
    rig.there.trouble(|faults| faults.api_answer = Some(other));

    let identity = rig.api_with(Secret::ApiKey(SecretString::from(GENERIC_KEY))).identity().await.unwrap();

    assert!(!rig.provider.is_account(&rig.account, &identity, None), "{identity:?}");
}
