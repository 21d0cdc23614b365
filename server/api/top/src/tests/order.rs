//! Nothing moves under the cursor.

use super::fixture::{NOW_MS, fleet, names_at, node, picture_at};
use crate::{Change, Delta, HOLD_MS, Key, Kind, Node, Top};

/// Nodes with these prices, all of them wasted.
fn nodes(prices: &[(&str, i64)]) -> Vec<Node> {
    prices.iter().map(|(name, price)| node(&format!("clusters/a/nodes/{name}"), *price, 0, 0)).collect()
}

fn top_of(prices: &[(&str, i64)]) -> Top {
    let mut top = Top::new(Kind::Nodes, None, false);
    top.apply(Change::Nodes(Delta::of(nodes(prices))), NOW_MS);
    top
}

fn change(top: &mut Top, prices: &[(&str, i64)]) {
    top.apply(Change::Nodes(Delta::of(nodes(prices))), NOW_MS);
}

fn delete(top: &mut Top, name: &str) {
    let deleted = vec![format!("clusters/a/nodes/{name}")];
    top.apply(Change::Nodes(Delta { reset: Vec::new(), rows: Vec::new(), deleted }), NOW_MS);
}

const AFTER: i64 = NOW_MS + HOLD_MS;

#[test]
fn before_the_selection_is_moved_the_cursor_is_on_the_first_row() {
    let mut top = top_of(&[("a", 3), ("b", 2)]);
    assert_eq!(names_at(&mut top, NOW_MS), [">a", "b"]);
    change(&mut top, &[("b", 9)]);
    assert_eq!(names_at(&mut top, NOW_MS), [">b", "a"]);
}

#[test]
fn the_order_is_kept_while_the_selection_is_moved_and_then_the_selection_follows_its_row() {
    let mut top = top_of(&[("a", 5), ("b", 4), ("c", 3), ("d", 2)]);
    names_at(&mut top, NOW_MS);
    top.handle(Key::Down, NOW_MS);
    change(&mut top, &[("d", 9), ("new", 8)]);
    assert_eq!(names_at(&mut top, AFTER - 1), ["a", ">b", "c", "d"], "the new order is not shown yet");
    let held = picture_at(&mut top, 80, 24, AFTER - 1);
    assert!(held.lines().nth(6).unwrap().ends_with("4 of 5  WASTE ▼ (held)"), "{held}");
    let price = held.lines().nth(11).unwrap();
    assert!(price.contains("0.0000"), "values change: {price}");
    assert_eq!(names_at(&mut top, AFTER), ["d", "new", "a", ">b", "c"]);
}

#[test]
fn values_change_while_the_order_is_kept() {
    let mut top = top_of(&[("a", 5_000_000), ("b", 4_000_000)]);
    names_at(&mut top, NOW_MS);
    top.handle(Key::Down, NOW_MS);
    change(&mut top, &[("b", 7_000_000)]);
    let picture = picture_at(&mut top, 80, 24, AFTER - 1);
    assert!(picture.lines().nth(9).unwrap().contains(" 7.0000 "), "{picture}");
}

#[test]
fn the_selected_row_stays_on_its_line_of_the_screen() {
    let names: Vec<String> = (0..40).map(|index| format!("n{index:02}")).collect();
    let prices: Vec<(&str, i64)> = names.iter().map(|name| (&**name, 10)).collect();
    let mut top = top_of(&prices);
    names_at(&mut top, NOW_MS);
    top.handle(Key::PageDown, NOW_MS);
    top.handle(Key::PageDown, NOW_MS);
    top.handle(Key::Up, NOW_MS);
    // The selection is row 25 on line 12 of the screen, which begins with row 13.
    assert_eq!(names_at(&mut top, NOW_MS)[12], ">n25");
    change(&mut top, &[("n38", 20), ("n39", 20)]);
    let after = names_at(&mut top, AFTER);
    assert_eq!((after[12].as_str(), after[0].as_str()), (">n25", "n13"), "two rows more are above");
}

#[test]
fn a_row_that_is_gone_is_marked_while_the_order_is_kept_and_the_next_one_is_selected_then() {
    let mut top = top_of(&[("a", 5), ("b", 4), ("c", 3)]);
    names_at(&mut top, NOW_MS);
    top.handle(Key::Home, NOW_MS);
    delete(&mut top, "b");
    assert_eq!(names_at(&mut top, AFTER - 1), [">a", "xb", "c"]);
    assert_eq!(names_at(&mut top, AFTER), [">a", "c"]);
    delete(&mut top, "a");
    assert_eq!(names_at(&mut top, AFTER), [">c"]);
    change(&mut top, &[("a", 5)]);
    assert_eq!(names_at(&mut top, AFTER), ["a", ">c"], "the selection is that row from then on");
}

#[test]
fn a_row_that_comes_again_while_the_order_is_kept_is_one_row() {
    let mut top = top_of(&[("a", 5), ("b", 4)]);
    names_at(&mut top, NOW_MS);
    top.handle(Key::Down, NOW_MS);
    delete(&mut top, "b");
    change(&mut top, &[("b", 6)]);
    assert_eq!(names_at(&mut top, AFTER), [">b", "a"]);
}

#[test]
fn another_order_and_a_filter_take_effect_at_once() {
    let mut top = top_of(&[("a", 5), ("b", 4)]);
    names_at(&mut top, NOW_MS);
    top.handle(Key::Down, NOW_MS);
    top.handle(Key::Char('S'), NOW_MS);
    assert_eq!(names_at(&mut top, NOW_MS), [">b", "a"], "the selection is still b");
    super::fixture::type_text(&mut top, "/nodepool-x");
    assert_eq!(names_at(&mut top, NOW_MS), ["No"], "no row matches");
}

#[test]
fn pause_is_the_callers_and_is_shown_with_the_age_of_the_rows() {
    let mut top = fleet();
    assert!(!top.is_paused());
    top.handle(Key::Char('p'), NOW_MS);
    assert!(top.is_paused());
    let title = picture_at(&mut top, 80, 24, NOW_MS + 33_000).lines().next().unwrap().to_owned();
    assert!(title.ends_with("  paused, 35s old"), "{title}");
    top.handle(Key::Char('p'), NOW_MS);
    assert!(!top.is_paused());
}

/// Numbers in no order, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Rows that are moved one by one are where a new arrangement of all puts them: after each of 300 messages with up to three
/// nodes, for each column, in a view with a filter. Names are of 200 nodes, so that rows come, change, go and come again.
#[test]
fn moving_rows_that_changed_has_the_result_of_arranging_all() {
    let mut numbers = Numbers(7);
    let mut moved = Top::new(Kind::Nodes, None, false);
    super::fixture::type_text(&mut moved, "/-c7g");
    moved.handle(Key::Enter, NOW_MS);
    for message in 0..300 {
        let rows: Vec<Node> = (0..numbers.below(4)).map(|_| random_node(&mut numbers)).collect();
        let deleted = (0..numbers.below(2)).map(|_| random_node(&mut numbers).name).collect();
        moved.apply(Change::Nodes(Delta { reset: Vec::new(), rows, deleted }), NOW_MS);
        if message % 20 == 0 {
            moved.handle(Key::Char('>'), NOW_MS);
        }
        if message % 50 == 0 {
            moved.handle(Key::Char('S'), NOW_MS);
        }
        let now = order_of(&mut moved);
        // Two reversals leave the order as it was and arrange all rows anew.
        moved.handle(Key::Char('S'), NOW_MS);
        order_of(&mut moved);
        moved.handle(Key::Char('S'), NOW_MS);
        assert_eq!(now, order_of(&mut moved), "message {message}");
    }
    assert!(order_of(&mut moved).len() > 60, "there are rows to order");
}

/// Names of all rows that are shown, in their order.
fn order_of(top: &mut Top) -> Vec<String> {
    top.settle(10, NOW_MS);
    (0..top.shown_len()).filter_map(|index| top.name_at(index)).map(str::to_owned).collect()
}

fn random_node(numbers: &mut Numbers) -> Node {
    let cores = i64::try_from(numbers.below(5)).unwrap();
    let name = format!("clusters/c{}/nodes/n{}", numbers.below(2), numbers.below(100));
    Node {
        instance_type: ["c7g.large", "m6i.large", "r6a.large"][usize::try_from(numbers.below(3)).unwrap()].to_owned(),
        pods: u32::try_from(numbers.below(3)).unwrap(),
        ..node(&name, cores * 10_000, cores, 16 - cores)
    }
}
