//! The help.

use super::canvas::Canvas;

const LINES: &[&str] = &[
    "arrows PgUp PgDn Home End (j k g G)  move the selection, which follows its row",
    "Enter, Esc or Backspace              open the row (cluster, nodes, pods); back",
    "1, 2, 3                              clusters, nodes, pods that wait",
    "< > or s; S                          order by another column; reverse the order",
    "/                                    filter: words, -word, or the API's filters",
    "p                                    pause: nothing changes until p is pressed",
    "q, Ctrl-C                            quit",
    "",
    "REQUESTED is what pods request of the allocatable, the greater of CPU and",
    "memory. It is not use. Above 90% it is green, above 60% yellow, else red.",
    "WASTE is $/hour x (1 - REQUESTED). A node without a price has none. A month has",
    "730 hours. While the selection moves, and 3 s after, the order is held.",
    "CAP od is on-demand. Filter of the API: zone = eu-* AND pod_count < 3",
];

pub(super) fn draw(canvas: &mut Canvas<'_>, top: u16) {
    for (line, y) in LINES.iter().zip(top..) {
        canvas.text(0, y, line);
    }
}
