//! Sessions of browsers.

use store::Store;
use store::browser_sessions::{BrowserSessionRow, MAX_SESSIONS_PER_CLIENT};

/// The end of the year 2286.
const LATE_MS: i64 = 9_999_999_999_000;

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_session_is_read_back_until_it_is_deleted(store, run).await;
    sessions_of_a_credential_are_deleted_together(store, run).await;
    expired_sessions_go_with_the_next_sign_in(store, run).await;
    a_client_has_a_limited_number_of_sessions(store, run).await;
}

fn session(client: &str, id: &str) -> BrowserSessionRow {
    BrowserSessionRow {
        id_sha256: format!("{client} {id}").into_bytes(),
        key_sha256: vec![7; 32],
        client: client.to_owned(),
        credential: "(\"https://id.example.com\", \"alice\")".to_owned(),
        expires_ms: LATE_MS,
    }
}

async fn a_session_is_read_back_until_it_is_deleted(store: &dyn Store, run: &str) {
    let client = format!("{run}-alice");
    let (one, other) = (session(&client, "one"), session(&client, "other"));
    for row in [&one, &other, &one] {
        store.create_browser_session(row).await.unwrap();
    }
    assert_eq!(store.browser_session(&one.id_sha256).await.unwrap(), Some(one.clone()));
    store.delete_browser_session(&one.id_sha256).await.unwrap();
    store.delete_browser_session(&one.id_sha256).await.unwrap();
    assert_eq!(store.browser_session(&one.id_sha256).await.unwrap(), None);
    assert_eq!(store.browser_session(&other.id_sha256).await.unwrap(), Some(other));
}

async fn sessions_of_a_credential_are_deleted_together(store: &dyn Store, run: &str) {
    let client = format!("{run}-dora");
    let (one, two) = (session(&client, "one"), session(&client, "two"));
    let later = BrowserSessionRow { credential: "another".to_owned(), ..session(&client, "later") };
    let other = session(&format!("{run}-emil"), "one");
    for row in [&one, &two, &later, &other] {
        store.create_browser_session(row).await.unwrap();
    }
    store.delete_browser_sessions_of(&client, &one.credential).await.unwrap();
    for gone in [one, two] {
        assert_eq!(store.browser_session(&gone.id_sha256).await.unwrap(), None);
    }
    for kept in [later, other] {
        assert_eq!(store.browser_session(&kept.id_sha256).await.unwrap(), Some(kept));
    }
}

async fn expired_sessions_go_with_the_next_sign_in(store: &dyn Store, run: &str) {
    let client = format!("{run}-bob");
    let old = BrowserSessionRow { expires_ms: 1_000_000_000_000, ..session(&client, "old") };
    store.create_browser_session(&old).await.unwrap();
    store.create_browser_session(&session(&client, "new")).await.unwrap();
    assert_eq!(store.browser_session(&old.id_sha256).await.unwrap(), None);
}

async fn a_client_has_a_limited_number_of_sessions(store: &dyn Store, run: &str) {
    let (client, other) = (format!("{run}-loop"), session(&format!("{run}-carol"), "first"));
    store.create_browser_session(&other).await.unwrap();
    for number in 0..=MAX_SESSIONS_PER_CLIENT {
        store.create_browser_session(&session(&client, &number.to_string())).await.unwrap();
    }
    assert_eq!(store.browser_session(&session(&client, "0").id_sha256).await.unwrap(), None, "the oldest");
    for kept in [session(&client, "1"), session(&client, &MAX_SESSIONS_PER_CLIENT.to_string()), other] {
        assert_eq!(store.browser_session(&kept.id_sha256).await.unwrap(), Some(kept));
    }
}
