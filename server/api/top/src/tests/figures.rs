//! Texts of figures, and sums.

use super::fixture::{GIB, NOW_MS, fleet, node, picture};
use crate::format;
use crate::row::{Node, Stage};
use crate::sums::FleetSums;
use crate::{Change, Delta, Feed, Kind, Top};
use ratatui_core::backend::TestBackend;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;

#[test]
fn dollars_lose_decimals_before_digits() {
    let texts = [
        (43_251, 7, "0.0433"),
        (98_320_000, 7, "98.3200"),
        (407_680_050, 7, "407.680"),
        (99_999_500_000, 7, "99999.5"),
        (1_234_567_000_000, 7, "1234567"),
        (12_345_678_000_000, 7, "12346k"),
        (-5_000, 7, "-0.0050"),
        (0, 7, "0.0000"),
    ];
    for (micro_usd, width, expected) in texts {
        let text = format::dollars(micro_usd, width);
        assert_eq!(text, expected);
        assert!(text.len() <= width, "{text}");
    }
}

#[test]
fn counts_and_amounts_fit_their_columns() {
    assert_eq!(format::count(9_999, 4), "9999");
    assert_eq!(format::count(100_000, 4), "100k");
    assert_eq!(format::count(12_345_678, 4), "12M");
    assert_eq!((format::grouped(1_234_567), format::grouped(999)), ("1,234,567".to_owned(), "999".to_owned()));
    assert_eq!((format::cores(1_930), format::gibibytes(15 * GIB / 2)), ("1.9".to_owned(), "7.5".to_owned()));
    assert_eq!((format::cpu_request(9_999), format::cpu_request(96_000)), ("9999m".to_owned(), "96".to_owned()));
    assert_eq!(
        (format::memory_request(GIB / 2), format::memory_request(64 * GIB)),
        ("512Mi".to_owned(), "64Gi".to_owned())
    );
    assert_eq!(format::cut("ip-10-0-0-1", 6), "ip-10…");
}

#[test]
fn a_percentage_is_100_only_when_all_is_requested() {
    assert_eq!([999, 1_000, 1_250].map(|share| format::percent(Some(share))), ["99%", "100%", "125%"]);
    assert_eq!(format::percent(None), "-");
    assert_eq!((format::bar(1_250, 4), format::bar(-1, 2)), ("████".to_owned(), "░░".to_owned()));
}

#[test]
fn waste_is_the_price_of_what_is_requested_in_neither_resource() {
    // CPU 25 %, memory 50 %: half of the node is free in both.
    assert_eq!(node("clusters/a/nodes/b", 200_000, 1, 8).waste_micro_usd(), 100_000);
    // All of the CPU is requested: no other pod fits, whatever memory is free.
    assert_eq!(node("clusters/a/nodes/b", 200_000, 4, 0).waste_micro_usd(), 0);
    // More is requested than is allocatable.
    assert_eq!(node("clusters/a/nodes/b", 200_000, 5, 0).waste_micro_usd(), 0);
    let booting = Node { stage: Stage::Booting, ..node("clusters/a/nodes/b", 200_000, 0, 0) };
    assert_eq!(booting.waste_micro_usd(), 0, "it has not joined");
    let unknown = Node { memory_allocatable_bytes: 0, ..node("clusters/a/nodes/b", 200_000, 0, 0) };
    assert_eq!(unknown.waste_micro_usd(), 0, "its memory is not known");
}

#[test]
fn sums_return_to_zero_when_all_nodes_are_gone() {
    let nodes = [node("clusters/a/nodes/b", 3, 1, 8), node("clusters/a/nodes/c", 5, 2, 1)];
    let mut sums = FleetSums::default();
    nodes.iter().for_each(|node| sums.add(node));
    assert_eq!((sums.of(Some("a")).cpu.requested, sums.of(None).price_micro_usd), (3_000, 8));
    nodes.iter().for_each(|node| sums.remove(node));
    assert_eq!(sums.of(None), crate::sums::Sums::default());
    assert_eq!(sums.of(Some("a")), crate::sums::Sums::default());
}

/// Colours of the bars of three nodes of which 1, 3 and 4 of 4 cores are requested.
fn colours(is_coloured: bool) -> Vec<Color> {
    let mut top = Top::new(Kind::Nodes, None, is_coloured);
    let nodes =
        [("a", 1), ("b", 3), ("c", 4)].map(|(name, cores)| node(&format!("clusters/a/nodes/{name}"), 0, cores, 0));
    top.apply(Change::Nodes(Delta::of(nodes.to_vec())), NOW_MS);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| top.draw(frame, NOW_MS)).unwrap();
    (8..11).map(|y| terminal.backend().buffer()[(16, y)].fg).collect()
}

#[test]
fn a_bar_is_green_above_90_percent_and_yellow_above_60() {
    assert_eq!(colours(true), [Color::Red, Color::Yellow, Color::Green]);
}

#[test]
fn without_colour_no_cell_has_one() {
    assert_eq!(colours(false), [Color::Reset; 3]);
    let mut top = Top::new(Kind::Clusters, None, false);
    super::fixture::load(&mut top);
    let mut terminal = Terminal::new(TestBackend::new(200, 50)).unwrap();
    terminal.draw(|frame| top.draw(frame, NOW_MS)).unwrap();
    let cells = &terminal.backend().buffer().content;
    assert!(cells.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
}

#[test]
fn nothing_and_no_data_do_not_look_alike() {
    let mut top = Top::new(Kind::Nodes, None, false);
    let empty = |top: &mut Top| picture(top, 80, 24).lines().nth(8).unwrap_or_default().to_owned();
    assert_eq!(empty(&mut top), " No rows yet: the list is not complete.");
    assert!(picture(&mut top, 80, 24).contains("The list of clusters is not complete yet."));
    for kind in Kind::ALL {
        top.apply(Change::Feed(kind, Feed::Live), NOW_MS);
    }
    assert_eq!(empty(&mut top), " No rows: the list is complete and has none here.");
    let mut top = fleet();
    super::fixture::type_text(&mut top, "/nonsense");
    assert_eq!(empty(&mut top), " No row matches the filter.");
}
