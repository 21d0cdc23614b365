//! How often an issuer is asked, and how long it is believed.

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

/// Seven hundred tokens at once, against an issuer that hangs: one question, and another issuer answers meanwhile.
#[tokio::test]
async fn an_issuer_that_hangs_is_asked_once_and_holds_up_no_other() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (go_on, held) = mpsc::channel::<()>();
    let (count, held) = (Arc::clone(&asked), Mutex::new(held));
    let issuers = Arc::new(Issuers::asking(move |name, _| {
        if name == "hangs" {
            count.fetch_add(1, Ordering::SeqCst);
            let _until_told = held.lock().unwrap().recv();
            return Err("it hung".to_owned());
        }
        Ok(JwkSet { keys: Vec::new() })
    }));
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..700 {
        let issuers = Arc::clone(&issuers);
        waiting.spawn(async move { issuers.keys(&issuer("hangs"), Some(&format!("made-up-{number}"))).await });
    }
    assert!(issuers.keys(&issuer("answers"), None).await.is_ok(), "while the other one hangs");
    // Every task has looked by now, or looks at the answer; either way nothing more is asked.
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

fn keys(ring: &Keyring, key_id: Option<&str>, at: Instant) -> &'static str {
    match ring.look(key_id, false, at) {
        Look::Use(_) => "use",
        Look::Wait => "wait",
        Look::Ask => "ask",
        Look::Refuse(_) => "refuse",
    }
}

#[test]
fn failures_are_remembered_for_longer_each_time() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut ring = Keyring::default();
    assert_eq!(keys(&ring, None, at(0)), "ask");
    ring.answered(Err("refused".to_owned()), at(0));
    assert_eq!([keys(&ring, None, at(9)), keys(&ring, None, at(10))], ["refuse", "ask"]);
    ring.answered(Err("refused".to_owned()), at(10));
    assert_eq!([keys(&ring, None, at(29)), keys(&ring, None, at(30))], ["refuse", "ask"]);
    (0..20).for_each(|_| ring.answered(Err("refused".to_owned()), at(30)));
    assert_eq!([keys(&ring, None, at(329)), keys(&ring, None, at(330))], ["refuse", "ask"], "5 min at most");
}

#[test]
fn keys_of_an_issuer_that_is_silent_are_believed_for_a_day_and_no_longer() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut ring = Keyring::default();
    ring.answered(Ok(JwkSet { keys: Vec::new() }), at(0));
    assert_eq!(keys(&ring, None, at(899)), "use");
    assert_eq!(keys(&ring, None, at(900)), "ask", "a quarter of an hour later");
    assert_eq!([keys(&ring, Some("other"), at(9)), keys(&ring, Some("other"), at(10))], ["use", "ask"]);
    ring.answered(Err("refused".to_owned()), at(86_399));
    assert_eq!(keys(&ring, None, at(86_399)), "use");
    assert_eq!(keys(&ring, None, at(86_400)), "refuse", "a day is over: what it signed may be withdrawn");
    assert!(ring.kept(at(86_400)).is_err());
}
