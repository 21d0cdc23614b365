use ::top::{Change, Key, Stage};
use clap::Parser;
use fleetwright_proto::v1;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;

#[derive(Debug, Parser)]
struct Words {
    #[command(flatten)]
    flags: TopFlags,
}

fn flags(words: &[&str]) -> Result<TopFlags, clap::Error> {
    Words::try_parse_from(["top"].iter().chain(words)).map(|words| words.flags)
}

#[test]
fn a_named_cluster_is_shown_by_its_nodes() {
    assert_eq!(flags(&[]).unwrap().kind(), Kind::Clusters);
    assert_eq!(flags(&["--cluster", "a"]).unwrap().kind(), Kind::Nodes);
    assert_eq!(flags(&["--cluster", "a", "--view", "pods"]).unwrap().kind(), Kind::Pods);
}

#[test]
fn an_interval_is_a_tenth_of_a_second_to_an_hour() {
    assert!((flags(&["--interval", "0.1"]).unwrap().interval - 0.1).abs() < f64::EPSILON);
    for refused in ["0.09", "0", "-1", "3601", "NaN", "inf", "x"] {
        let error = flags(&[&format!("--interval={refused}")]).unwrap_err().to_string();
        assert!(error.contains("from 0.1 to 3600"), "{refused}: {error}");
    }
}

#[test]
fn texts_of_clusters_cannot_change_the_terminal() {
    let node = v1::Node {
        name: "clusters/a/nodes/\u{1b}[2J".to_owned(),
        stage: v1::NodeStage::Deleting.into(),
        instance_type: "m6i\u{202e}".to_owned(),
        removal_reason: "a\nb".to_owned(),
        price_micro_usd_per_hour: 7,
        ..v1::Node::default()
    };
    let deleted = vec!["clusters/a/nodes/\u{1b}[2J".to_owned()];
    let delta = ::top::Delta { reset: Vec::new(), rows: vec![node], deleted };
    let Change::Nodes(delta) = messages::nodes(delta) else { panic!("nodes are nodes") };
    let row = &delta.rows[0];
    assert_eq!((row.instance_type.as_str(), row.removal_reason.as_str()), ("m6i\\u{202e}", "a\\u{a}b"));
    assert_eq!((row.stage, row.price_micro_usd), (Stage::Draining, 7));
    assert_eq!(delta.deleted[0], row.name, "the deleted row is the one that was added");
    assert_eq!(row.name, "clusters/a/nodes/\\u{1b}[2J");
}

#[test]
fn keys_of_the_terminal_have_their_meaning_and_ctrl_c_interrupts() {
    let key = |code, modifiers| keyboard::key_of(&KeyEvent::new(code, modifiers));
    assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
    assert_eq!(key(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
    assert_eq!(key(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Key::Char('G')));
    assert_eq!(key(KeyCode::Char('q'), KeyModifiers::ALT), None);
    assert_eq!(key(KeyCode::PageDown, KeyModifiers::NONE), Some(Key::PageDown));
}
