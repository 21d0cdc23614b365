//! Fetch rate and lifetime of issuer keys.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;

fn issuer(name: &str) -> IssuerTrust {
    IssuerTrust {
        issuer: name.to_owned(),
        subject: "agent".to_owned(),
        audience: "fleetwright".to_owned(),
        jwks_file: None,
        ca_file: None,
    }
}

/// Seven hundred concurrent tokens of an unresponsive issuer: one fetch, and another issuer is
/// unaffected.
#[tokio::test]
async fn an_unresponsive_issuer_is_fetched_once_and_blocks_no_other() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (go_on, held) = mpsc::channel::<()>();
    let (count, held) = (Arc::clone(&asked), Mutex::new(held));
    let issuers = Arc::new(IssuerKeys::with_fetcher(move |name, _| {
        if name == "hangs" {
            count.fetch_add(1, Ordering::SeqCst);
            let _until_told = held.lock().unwrap().recv();
            return Err(KeySetError::OtherIssuer("it hung".to_owned()));
        }
        Ok(JwkSet { keys: Vec::new() })
    }));
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..700 {
        let issuers = Arc::clone(&issuers);
        waiting.spawn(async move { issuers.keys(&issuer("hangs"), Some(&format!("made-up-{number}"))).await });
    }
    assert!(issuers.keys(&issuer("answers"), None).await.is_ok(), "while the other one is unresponsive");
    // Every task has looked up the keys by now, or will find the result; either way nothing more is
    // fetched.
    while asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    go_on.send(()).unwrap();
    for answer in waiting.join_all().await {
        assert!(answer.unwrap_err().to_string().contains("it hung"));
    }
    assert!(issuers.keys(&issuer("hangs"), None).await.is_err(), "the failure is remembered");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

fn keys(cache: &JwksCache, key_id: Option<&str>, at: Instant) -> &'static str {
    match cache.look_up(key_id, false, at) {
        Lookup::Use(_) => "use",
        Lookup::Wait => "wait",
        Lookup::Fetch => "ask",
        Lookup::Refuse(_) => "refuse",
    }
}

fn refused() -> KeySetError {
    KeySetError::OtherIssuer("refused".to_owned())
}

#[test]
fn failures_back_off_exponentially() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut cache = JwksCache::default();
    assert_eq!(keys(&cache, None, at(0)), "ask");
    cache.record_fetch(Err(refused()), at(0));
    assert_eq!([keys(&cache, None, at(9)), keys(&cache, None, at(10))], ["refuse", "ask"]);
    cache.record_fetch(Err(refused()), at(10));
    assert_eq!([keys(&cache, None, at(29)), keys(&cache, None, at(30))], ["refuse", "ask"]);
    (0..20).for_each(|_| cache.record_fetch(Err(refused()), at(30)));
    assert_eq!([keys(&cache, None, at(329)), keys(&cache, None, at(330))], ["refuse", "ask"], "5 min at most");
}

#[test]
fn keys_of_an_unreachable_issuer_are_valid_for_a_day() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut cache = JwksCache::default();
    cache.record_fetch(Ok(JwkSet { keys: Vec::new() }), at(0));
    assert_eq!(keys(&cache, None, at(899)), "use");
    assert_eq!(keys(&cache, None, at(900)), "ask", "a quarter of an hour later");
    assert_eq!([keys(&cache, Some("other"), at(9)), keys(&cache, Some("other"), at(10))], ["use", "ask"]);
    cache.record_fetch(Err(refused()), at(86_399));
    assert_eq!(keys(&cache, None, at(86_399)), "use");
    assert_eq!(keys(&cache, None, at(86_400)), "refuse", "after a day its keys may be revoked");
    assert!(cache.cached(at(86_400)).is_err());
}
