//! What keys do.

use super::fixture::{NOW_MS, fleet, names_at, picture, type_text};
use crate::{Action, Key, Top};

fn names(top: &mut Top) -> Vec<String> {
    names_at(top, NOW_MS)
}

fn line(top: &mut Top, index: usize) -> String {
    picture(top, 80, 24).lines().nth(index).unwrap_or_default().to_owned()
}

fn press(top: &mut Top, keys: &[Key]) {
    picture(top, 80, 24);
    for key in keys {
        top.handle(*key, NOW_MS);
        picture(top, 80, 24);
    }
}

#[test]
fn enter_goes_from_cluster_to_nodes_to_pods_and_escape_back() {
    let mut top = fleet();
    press(&mut top, &[Key::Enter]);
    assert!(line(&mut top, 6).starts_with("prod > nodes "));
    press(&mut top, &[Key::End, Key::Enter]);
    // The last row is the machine on its way, on whose NodeClaim name the pod cart-1 is planned.
    assert!(line(&mut top, 6).starts_with("default-x9 > pods planned here (bound pods are not in the API)"));
    assert_eq!(names(&mut top), [">shop/cart-1"]);
    assert_eq!(top.handle(Key::Enter, NOW_MS), Action::Ignore, "a pod has nothing to open");
    press(&mut top, &[Key::Escape]);
    assert_eq!(names(&mut top), ["ip-10-0-0-3", "ip-10-0-0-1", "ip-10-0-0-2.e…", ">default-x9"], "as it was left");
    press(&mut top, &[Key::Backspace]);
    assert_eq!(names(&mut top), [">prod", "test"]);
    assert_eq!(top.handle(Key::Escape, NOW_MS), Action::Ignore, "the first view stays");
}

#[test]
fn a_node_has_the_pods_that_are_planned_on_its_claim() {
    let mut top = fleet();
    let planned = crate::Pod {
        planned_node: "default-x1".to_owned(),
        ..super::fixture::pod("clusters/prod/namespaces/a/pods/on-claim", 1, crate::PodState::Planned)
    };
    top.apply(crate::Change::Pods(crate::Delta::of(vec![planned])), NOW_MS);
    press(&mut top, &[Key::Char('2'), Key::Enter]);
    assert!(line(&mut top, 6).starts_with("ip-10-0-0-3 > pods planned here"));
    assert_eq!(names(&mut top), [">a/on-claim"]);
}

#[test]
fn one_two_and_three_show_the_kinds_within_the_cluster() {
    let mut top = fleet();
    press(&mut top, &[Key::Down, Key::Enter, Key::Char('3')]);
    assert!(line(&mut top, 6).starts_with("test > waiting pods"));
    assert!(line(&mut top, 8).contains("No rows: the list is complete"));
    press(&mut top, &[Key::Char('2')]);
    assert_eq!(names(&mut top), [">old"]);
    press(&mut top, &[Key::Char('1'), Key::Char('3')]);
    assert_eq!(names(&mut top).len(), 3, "pods of all clusters");
}

#[test]
fn a_filter_of_words_looks_at_all_texts() {
    let mut top = fleet();
    press(&mut top, &[Key::Char('2')]);
    type_text(&mut top, "/SPOT");
    assert_eq!(names(&mut top), [">ip-10-0-0-2.e…"]);
    assert_eq!(line(&mut top, 23), "Filter: SPOT_  (Enter keeps it, Esc clears it)");
    press(&mut top, &[Key::Enter]);
    assert!(line(&mut top, 6).ends_with("1 of 5  WASTE ▼  filter SPOT"));
    press(&mut top, &[Key::Escape]);
    assert_eq!(names(&mut top).len(), 5, "Esc clears the filter before it goes back");
    type_text(&mut top, "/eu-west-1a -draining -old");
    assert_eq!(names(&mut top), [">ip-10-0-0-1", "default-x9"]);
}

#[test]
fn a_filter_with_an_operator_is_one_of_the_api() {
    let mut top = fleet();
    press(&mut top, &[Key::Char('2')]);
    type_text(&mut top, "/price_micro_usd_per_hour > 150000 AND stage = NODE_STAGE_READY");
    assert_eq!(names(&mut top), [">ip-10-0-0-1"]);
}

#[test]
fn a_text_that_is_no_filter_says_why_and_changes_no_row() {
    let mut top = fleet();
    press(&mut top, &[Key::Char('2')]);
    type_text(&mut top, "/spot");
    type_text(&mut top, "=1");
    assert!(line(&mut top, 23).starts_with("Filter: spot=1_  "), "{}", line(&mut top, 23));
    assert!(line(&mut top, 23).contains("spot"), "the error names the field");
    assert_eq!(names(&mut top), [">ip-10-0-0-2.e…"], "the filter before");
    press(&mut top, &[Key::Backspace, Key::Backspace]);
    assert_eq!(line(&mut top, 23), "Filter: spot_  (Enter keeps it, Esc clears it)");
}

#[test]
fn each_view_has_its_filter() {
    let mut top = fleet();
    type_text(&mut top, "/prod");
    press(&mut top, &[Key::Enter, Key::Enter]);
    assert_eq!(names(&mut top).len(), 4, "the filter of the clusters is not that of the nodes");
    press(&mut top, &[Key::Escape]);
    assert_eq!(names(&mut top), [">prod"]);
    // Nodes of `prod` with a filter, then nodes of all clusters, and back.
    press(&mut top, &[Key::Enter]);
    type_text(&mut top, "/spot");
    press(&mut top, &[Key::Enter, Key::Char('1'), Key::Char('2')]);
    assert_eq!(names(&mut top).len(), 5);
}

#[test]
fn columns_order_rows_and_numbers_begin_with_the_greatest() {
    let mut top = fleet();
    press(&mut top, &[Key::Char('2'), Key::Char('<')]);
    assert!(line(&mut top, 6).ends_with("$/HOUR ▼"));
    let by_price = [">default-x9", "ip-10-0-0-1", "ip-10-0-0-3", "ip-10-0-0-2.e…", "old"];
    assert_eq!(names(&mut top), by_price, "equal prices are in the order of names");
    press(&mut top, &[Key::Char('S')]);
    let reversed = [">old", "ip-10-0-0-2.e…", "ip-10-0-0-1", "ip-10-0-0-3", "default-x9"];
    assert_eq!(names(&mut top), reversed);
    // STATE is two columns on. Its texts are in alphabetical order.
    press(&mut top, &[Key::Char('>'), Key::Char('s')]);
    assert!(line(&mut top, 6).ends_with("STATE ▲"));
    let by_state = [">ip-10-0-0-3", "default-x9", "old", "ip-10-0-0-1", "ip-10-0-0-2.e…"];
    assert_eq!(names(&mut top), by_state, "Draining, Launching, NotReady, Ready");
}

#[test]
fn pages_and_ends_move_the_selection() {
    let mut top = Top::new(crate::Kind::Nodes, None, false);
    let node = |index: u32| super::fixture::node(&format!("clusters/a/nodes/n{index:02}"), 1, 1, 1);
    top.apply(crate::Change::Nodes(crate::Delta::of((0..40).map(node).collect())), NOW_MS);
    assert_eq!(names(&mut top).len(), 14);
    // A page is one row less than the screen has.
    press(&mut top, &[Key::PageDown]);
    assert_eq!(names(&mut top).last().map(String::as_str), Some(">n13"));
    press(&mut top, &[Key::PageDown]);
    assert_eq!((names(&mut top)[0].as_str(), names(&mut top)[13].as_str()), ("n13", ">n26"));
    press(&mut top, &[Key::End]);
    assert_eq!((names(&mut top)[0].as_str(), names(&mut top)[13].as_str()), ("n26", ">n39"));
    press(&mut top, &[Key::PageUp]);
    assert_eq!(names(&mut top)[0], ">n26");
    press(&mut top, &[Key::Char('k'), Key::Char('k'), Key::Char('j'), Key::Home]);
    assert_eq!(names(&mut top)[0], ">n00");
}

#[test]
fn help_covers_the_rows_until_a_key() {
    let mut top = fleet();
    press(&mut top, &[Key::Char('?')]);
    assert!(line(&mut top, 7).contains("move the selection"));
    press(&mut top, &[Key::Enter]);
    assert!(line(&mut top, 6).starts_with("Clusters"), "the key closes the help and opens nothing");
    assert_eq!(top.handle(Key::Char('x'), NOW_MS), Action::Ignore);
}

#[test]
fn q_and_ctrl_c_quit_and_q_is_a_letter_of_a_filter() {
    let mut top = fleet();
    assert_eq!(top.handle(Key::Char('/'), NOW_MS), Action::Draw);
    assert_eq!(top.handle(Key::Char('q'), NOW_MS), Action::Draw);
    assert_eq!(top.handle(Key::Interrupt, NOW_MS), Action::Quit);
    top.handle(Key::Escape, NOW_MS);
    assert_eq!(top.handle(Key::Char('q'), NOW_MS), Action::Quit);
    top.handle(Key::Char('?'), NOW_MS);
    assert_eq!(top.handle(Key::Char('q'), NOW_MS), Action::Quit);
}
