//! Whole pictures of the fleet of the fixture.
//!
//! Its five nodes, of four cores and 16 GiB each (the machine on its way has none yet):
//!
//! | node | price | CPU | memory | greater | waste |
//! |---|---|---|---|---|---|
//! | ip-10-0-0-1 | 0.20 | 1/4, 25 % | 8/16, 50 % | 50 % | 0.20 x 50 % = 0.10 |
//! | ip-10-0-0-2 | 0.10 | 3/4, 75 % | 4/16, 25 % | 75 % | 0.10 x 25 % = 0.025 |
//! | ip-10-0-0-3 | 0.20 | 0 | 0 | 0 | 0.20 |
//! | default-x9 | 0.30 | | | | has not joined |
//! | old (of `test`) | none | 1/4, 25 % | 2/16, 12.5 % | 25 % | no price |
//!
//! - Waste is 0.325, shown as 0.33, of 0.80 $/hour: 40.6 %. The clusters cost 0.90 $/hour, in 730 hours 657 $.
//! - CPU: 5 of 16 cores, 31.25 %; of 24 cells of the bar 7.5 are filled, of 60 cells 18.75. Memory: 14 of 64 GiB, 21.875 %; of
//!   24 cells 5.25, of 60 cells 13.1. Cells are rounded from thousandths: 312 * 24 = 7,488, which is 7.
//! - `prod` alone: 4 of 12 cores, 33.3 %; 12 of 48 GiB, 25 %.

use super::fixture::{NOW_MS, fleet, picture};
use crate::{Key, Kind, Top};

const HEADER: &str = "\
2 clusters, 5 nodes, 3 pods pending                                 live, 2s old
Nodes   2 ready, 1 starting, 1 draining, 1 not ready
Cost    $0.90/h, $657/month, waste $0.33/h (40%), 1 unpriced
CPU     5.0 of 16.0 cores requested, 31%                ███████░░░░░░░░░░░░░░░░░
Memory  14.0 of 64.0 GiB requested, 21%                 █████░░░░░░░░░░░░░░░░░░░
! stale: test
";

const KEYS: &str = "Enter open  Esc back  / filter  < > S order  1 2 3 view  p pause  ? help  q quit";

/// A picture of 24 lines with this header, view, selected row and last line.
fn screen(header: &str, view: &str, selected: &str, last: &str) -> String {
    let lines = header.lines().count() + view.lines().count();
    format!("{header}{view}{}{selected}\n{last}", "\n".repeat(22 - lines))
}

#[test]
fn clusters_in_80_columns() {
    let view = "\
Clusters                                                         2 of 2  WASTE ▼
 CLUSTER           NODES PENDING REQUESTED    $/HOUR     WASTE STATE        SEEN
>prod                  4       3 █░░░  33%    0.8000    0.3250 connected      2s
 test                  1       0 █░░░  25%    0.1000    0.0000 stale          2s
";
    assert_eq!(picture(&mut fleet(), 80, 24), screen(HEADER, view, "clusters/prod", KEYS));
}

#[test]
fn nodes_in_80_columns() {
    let view = "\
All clusters > nodes                                             5 of 5  WASTE ▼
 NODE           REQUESTED PODS TYPE        ZONE       CAP   $/HOUR STATE     AGE
>ip-10-0-0-3    ░░░░   0%    0 m6i.xlarge  eu-west-1a od    0.2000 Draining   1h
 ip-10-0-0-1    ██░░  50%   12 m6i.xlarge  eu-west-1a od    0.2000 Ready      1h
 ip-10-0-0-2.e… ███░  75%   12 m6i.xlarge  eu-west-1b spot  0.1000 Ready      1h
 default-x9     no data      1 m6i.xlarge  eu-west-1a od    0.3000 Starting  20s
 old            █░░░  25%   12 m6i.xlarge  eu-west-1a od         - NotReady   1h
";
    let mut top = fleet();
    top.handle(Key::Char('2'), NOW_MS);
    assert_eq!(picture(&mut top, 80, 24), screen(HEADER, view, "clusters/prod/nodes/ip-10-0-0-3  empty", KEYS));
}

#[test]
fn pods_in_80_columns() {
    let view = "\
All clusters > waiting pods (bound pods are not in the API)        3 of 3  AGE ▼
 NAMESPACE/POD              STATE             CPU   MEMORY  AGE PLACE OR REASON
>shop/web-1                 Unschedulable    500m   2048Mi   1h Taints: no Node…
 batch/job-7                Waiting          500m   2048Mi   5m
 shop/cart-1                Planned          500m   2048Mi   1m default-x9
";
    let mut top = fleet();
    top.handle(Key::Char('3'), NOW_MS);
    let selected = "clusters/prod/namespaces/shop/pods/web-1  Taints: no NodePool is tolerated";
    assert_eq!(picture(&mut top, 80, 24), screen(HEADER, view, selected, KEYS));
}

#[test]
fn nodes_of_a_cluster_have_a_header_of_their_own() {
    // 4 of 12 cores: 333 * 24 = 7,992 thousandths of a cell are 8. 12 of 48 GiB: 6 of 24.
    let header = "\
prod: 4 nodes, 3 pods pending                                       live, 2s old
Nodes   2 ready, 1 starting, 1 draining, 0 not ready
Cost    $0.80/h, $584/month, waste $0.33/h (40%)
CPU     4.0 of 12.0 cores requested, 33%                ████████░░░░░░░░░░░░░░░░
Memory  12.0 of 48.0 GiB requested, 25%                 ██████░░░░░░░░░░░░░░░░░░
Every cluster is connected.
";
    let view = "\
prod > nodes                                                     4 of 5  WASTE ▼
 NODE           REQUESTED PODS TYPE        ZONE       CAP   $/HOUR STATE     AGE
>ip-10-0-0-3    ░░░░   0%    0 m6i.xlarge  eu-west-1a od    0.2000 Draining   1h
 ip-10-0-0-1    ██░░  50%   12 m6i.xlarge  eu-west-1a od    0.2000 Ready      1h
 ip-10-0-0-2.e… ███░  75%   12 m6i.xlarge  eu-west-1b spot  0.1000 Ready      1h
 default-x9     no data      1 m6i.xlarge  eu-west-1a od    0.3000 Starting  20s
";
    let mut top = fleet();
    picture(&mut top, 80, 24);
    top.handle(Key::Enter, NOW_MS);
    assert_eq!(picture(&mut top, 80, 24), screen(header, view, "clusters/prod/nodes/ip-10-0-0-3  empty", KEYS));
}

#[test]
fn a_terminal_of_200_columns_has_more_columns_and_wider_ones() {
    let expected = "\
2 clusters, 5 nodes, 3 pods pending                                                                                                                                                         live, 2s old
Nodes   2 ready, 1 starting, 1 draining, 1 not ready
Cost    $0.90/h, $657/month, waste $0.33/h (40%), 1 unpriced
CPU     5.0 of 16.0 cores requested, 31%                ███████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
Memory  14.0 of 64.0 GiB requested, 21%                 █████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
! stale: test
All clusters > nodes                                                                                                                                                                     5 of 5  WASTE ▼
 CLUSTER          NODE                       REQUESTED CPU       MEMORY    PODS TYPE             ZONE           CAP        $/HOUR   WASTE STATE       AGE NODEPOOL         CORES REQ/ALLOC
>prod             ip-10-0-0-3                ░░░░   0% ░░░░   0% ░░░░   0%    0 m6i.xlarge       eu-west-1a     on-demand  0.2000  0.2000 Draining     1h default                  0.0/4.0
 prod             ip-10-0-0-1                ██░░  50% █░░░  25% ██░░  50%   12 m6i.xlarge       eu-west-1a     on-demand  0.2000  0.1000 Ready        1h default                  1.0/4.0
 prod             ip-10-0-0-2.eu-west-1.com… ███░  75% ███░  75% █░░░  25%   12 m6i.xlarge       eu-west-1b     spot       0.1000  0.0250 Ready        1h default                  3.0/4.0
 prod             default-x9                 no data   no data   no data      1 m6i.xlarge       eu-west-1a     on-demand  0.3000  0.0000 Launching   20s default                  0.0/0.0
 test             old                        █░░░  25% █░░░  25% █░░░  12%   12 m6i.xlarge       eu-west-1a     on-demand       -       - NotReady     1h                          1.0/4.0
";
    let mut top = fleet();
    top.handle(Key::Char('2'), NOW_MS);
    let picture = picture(&mut top, 200, 50);
    // 13 lines, 35 empty ones, the selected row and the keys: 50.
    let rest = format!("{}clusters/prod/nodes/ip-10-0-0-3  empty\n{KEYS}", "\n".repeat(35));
    assert_eq!(picture, format!("{expected}{rest}"));
}

#[test]
fn clusters_in_200_columns_have_bars_of_both_resources() {
    let mut top = fleet();
    let picture = picture(&mut top, 200, 50);
    let lines: Vec<&str> = picture.lines().skip(7).take(3).collect();
    let expected = [
        " CLUSTER                   NODES  READY    PODS PENDING REQUESTED CPU       MEMORY       $/HOUR     WASTE STATE        SEEN BLOCKED BY",
        ">prod                          4      2      40       3 █░░░  33% █░░░  33% █░░░  25%    0.8000    0.3250 connected      2s",
        " test                          1      0      10       0 █░░░  25% █░░░  25% █░░░  12%    0.1000    0.0000 stale          2s",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn plain_text_has_neither_keys_nor_cursor() {
    let view = "\
Clusters                                                         2 of 2  WASTE ▼
 CLUSTER           NODES PENDING REQUESTED    $/HOUR     WASTE STATE        SEEN
 prod                  4       3 █░░░  33%    0.8000    0.3250 connected      2s
 test                  1       0 █░░░  25%    0.1000    0.0000 stale          2s
";
    assert_eq!(fleet().plain_text(80, 24, NOW_MS), format!("{HEADER}{view}"));
}

#[test]
fn every_number_is_whole_in_80_columns_with_the_greatest_values() {
    // The header of a fleet of 1,000 clusters with 100,000 nodes; a node of 99,999.5 $/hour, 9,999 pods and 9,999 days,
    // which are 27.4 years.
    let mut top = Top::new(Kind::Nodes, None, false);
    let (mut clusters, mut nodes, _) = super::fixture::rows();
    clusters.truncate(1);
    clusters[0].price_micro_usd = 1_234_567_891_234;
    nodes.truncate(1);
    (nodes[0].price_micro_usd, nodes[0].pods) = (99_999_500_000, 9_999);
    nodes[0].created_ms = Some(NOW_MS - 9_999 * 86_400_000);
    top.apply(crate::Change::Clusters(crate::Delta::of(clusters)), NOW_MS);
    top.apply(crate::Change::Nodes(crate::Delta::of(nodes)), NOW_MS);
    let picture = picture(&mut top, 80, 24);
    let lines: Vec<&str> = picture.lines().collect();
    // 1,234,567.891234 * 730 = 901,234,560.6. Half of 99,999.5 is wasted.
    assert_eq!(lines[2], "Cost    $1,234,567.89/h, $901,234,561/month, waste $49,999.75/h (50%)");
    let row = ">ip-10-0-0-1    ██░░  50% 9999 m6i.xlarge  eu-west-1a od   99999.5 Ready     27y";
    assert_eq!(lines[8], row);
}

#[test]
fn a_narrow_terminal_leaves_columns_out_and_a_tiny_one_is_no_error() {
    let mut top = fleet();
    let narrow = picture(&mut top, 40, 24);
    // Each with a space before it, 17 + 10 + 7 = 34 columns; PENDING needs eight more. CLUSTER gets the six that are left: 22.
    assert_eq!(narrow.lines().nth(7), Some(" CLUSTER                 NODES REQUESTED"));
    for (width, height) in [(1, 1), (3, 2), (10, 5), (80, 9), (0, 0)] {
        picture(&mut top, width, height);
    }
}
