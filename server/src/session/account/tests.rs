//! What is counted, what is given back, and who is refused.

use super::*;

fn labels(tag: u8, count: usize) -> Change {
    let pair = |number: usize| v1::StringPair { key: format!("k{number}"), value: "v".into() };
    let set = v1::LabelSet { labels: (0..count).map(pair).collect() };
    let content = prost::Message::encode_to_vec(&set);
    Change::DefineLabelSet(v1::Definition { hash: vec![tag; 16], content })
}

fn pod(name: &str) -> Change {
    Change::Pod(v1::PodRecord { namespace: "a".into(), name: name.into(), ..v1::PodRecord::default() })
}

fn gone(name: &str) -> Change {
    Change::Removal(v1::Removal { kind: v1::ObjectKind::Pod.into(), namespace: "a".into(), name: name.into() })
}

/// Namespace and name of one character each: 2 × (tag, length, character) are 6 bytes on the wire.
const POD: u64 = 1_024 + 2 * 6;

#[test]
fn objects_are_counted_once_and_given_back_definitions_stay() {
    let ledger = Ledger::default();
    let mut account = ledger.account();
    account.count(&pod("x")).unwrap();
    account.count(&pod("x")).unwrap();
    account.count(&pod("y")).unwrap();
    assert_eq!(ledger.held(), 2 * POD);
    account.count(&gone("x")).unwrap();
    account.count(&gone("never there")).unwrap();
    assert_eq!(ledger.held(), POD);
    // One label: (tag, length, key tag, length, 2, value tag, length, 1) are 9 bytes.
    account.count(&labels(1, 1)).unwrap();
    assert_eq!(ledger.held(), POD + 160 + 420 + 160 + 9);
    let kept = account.kept();
    drop(account);
    assert_eq!(ledger.held(), POD, "what is believed goes on to be counted");
    drop(kept);
    assert_eq!(ledger.held(), 0);
}

#[test]
fn a_session_that_takes_too_much_is_told_which_setting_bounds_it() {
    let ledger = Ledger::new(2 * POD, u64::MAX);
    let mut account = ledger.account();
    account.count(&pod("x")).unwrap();
    account.count(&pod("y")).unwrap();
    let refused = account.count(&pod("z")).unwrap_err().to_string();
    assert!(refused.contains("session.memory allows") && refused.contains("raise session.memory"), "{refused}");
    account.count(&gone("x")).unwrap();
    account.count(&pod("z")).unwrap();
}

#[test]
fn beyond_the_total_every_session_has_its_even_share() {
    // Ten pods for all, five for each of two.
    let ledger = Ledger::new(u64::MAX, 10 * POD);
    let (mut greedy, mut modest) = (ledger.account(), ledger.account());
    for name in "abcdefghij".chars() {
        greedy.count(&pod(&name.to_string())).unwrap();
    }
    let refused = greedy.count(&pod("k")).unwrap_err().to_string();
    assert!(refused.contains("session.memory-total"), "{refused}");
    for name in "abcde".chars() {
        modest.count(&pod(&name.to_string())).unwrap();
    }
    assert!(modest.count(&pod("f")).is_err());
    drop(greedy);
    modest.count(&pod("f")).unwrap();
}

/// The sabotage `unbounded`: a ledger without limits takes everything that the tests above see refused.
#[test]
fn without_limits_nothing_is_refused() {
    let ledger = Ledger::new(u64::MAX, u64::MAX);
    let mut account = ledger.account();
    (0..1_000).for_each(|number| account.count(&pod(&number.to_string())).unwrap());
}
