//! Accounting, release and limits.

use super::*;

fn labels(tag: u8, count: usize) -> Change {
    let pair = |number: usize| v1::StringPair { key: format!("k{number}"), value: "v".into() };
    let set = v1::LabelSet { labels: (0..count).map(pair).collect() };
    let content = prost::Message::encode_to_vec(&set);
    Change::DefineLabelSet(v1::Definition { hash: vec![tag; 16], content })
}

fn pod(name: &str) -> Change {
    Change::Pod(Box::new(v1::PodRecord { namespace: "a".into(), name: name.into(), ..v1::PodRecord::default() }))
}

fn gone(name: &str) -> Change {
    Change::Removal(v1::Removal { kind: v1::ObjectKind::Pod.into(), namespace: "a".into(), name: name.into() })
}

/// Namespace and name of one character each: 2 × (tag, length, character) are 6 bytes on the wire.
const POD: u64 = 1_024 + 2 * 6;

#[test]
fn objects_are_counted_once_and_released_definitions_stay() {
    let session_memory = SessionMemory::default();
    let mut account = session_memory.account();
    account.count(&pod("x")).unwrap();
    account.count(&pod("x")).unwrap();
    account.count(&pod("y")).unwrap();
    assert_eq!(session_memory.held(), 2 * POD);
    account.count(&gone("x")).unwrap();
    account.count(&gone("never there")).unwrap();
    assert_eq!(session_memory.held(), POD);
    // One label: (tag, length, key tag, length, 1, value tag, length, 1) are 9 bytes.
    account.count(&labels(1, 1)).unwrap();
    assert_eq!(session_memory.held(), POD + 160 + 420 + 160 + 9);
    let kept = account.retain();
    drop(account);
    assert_eq!(session_memory.held(), POD, "retained objects stay accounted");
    drop(kept);
    assert_eq!(session_memory.held(), 0);
}

#[test]
fn the_error_of_a_session_above_its_limit_names_the_setting() {
    let session_memory = SessionMemory::new(2 * POD, u64::MAX);
    let mut account = session_memory.account();
    account.count(&pod("x")).unwrap();
    account.count(&pod("y")).unwrap();
    let refused = account.count(&pod("z")).unwrap_err().to_string();
    assert!(refused.contains("session.memory allows") && refused.contains("raise session.memory"), "{refused}");
    account.count(&gone("x")).unwrap();
    account.count(&pod("z")).unwrap();
}

#[test]
fn above_the_total_every_session_keeps_an_equal_share() {
    // Ten pods for all, five for each of two.
    let session_memory = SessionMemory::new(u64::MAX, 10 * POD);
    let (mut greedy, mut modest) = (session_memory.account(), session_memory.account());
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

/// Mutation `unbounded`: without limits, everything that the tests above see rejected is accepted.
#[test]
fn without_limits_nothing_is_rejected() {
    let session_memory = SessionMemory::new(u64::MAX, u64::MAX);
    let mut account = session_memory.account();
    (0..1_000).for_each(|number| account.count(&pod(&number.to_string())).unwrap());
}
