//! Draws a plan: each node as a box, in it a bar for each resource, in the bar the pods by their
//! share of the node, and what is not requested in grey.
//!
//! The file is self-contained: no script, no reference, no font of its own. It follows the colour
//! scheme of the reader. Nodes carry `data-node`, pods `data-pod`; each pod is one element, so that
//! the drawing stays small, and its share of several resources is one path. Coordinates are tenths
//! of a pixel, computed with integers: same plan, same bytes.
//!
//! A bar is the whole node. Its length is the node's amount of the resource, by the largest amount of a
//! node in the drawing, and a quarter of the box at least: what is smaller shows shares only. The text
//! below a bar has the amounts.

mod bars;
mod layout;
mod markup;
mod node_view;
mod palette;

use std::io::{self, Write};

use self::bars::NodeBox;
use self::layout::{COLUMN, LINE, MANY_NODES, MANY_PODS, MARGIN, TILE};
use self::markup::{attribute, shortened, text, wrapped};
use self::node_view::{NodeView, views};
use self::palette::Palette;
use super::{Rendering, repacking, table};
use command::wording::counted;

const STYLE: &str = "svg{background:#fff}\
text{font:12px system-ui,sans-serif;fill:#1f2328}\
.h{font-size:15px;font-weight:600}.n{font-weight:600}.s{fill:#59636e;font-size:11px}\
.b{fill:#f6f8fa;stroke:#8c959f}.e .b{stroke-dasharray:5 3}.x{opacity:.6}.x .n{text-decoration:line-through}\
.w{fill:#c8ccd1}.d{fill:#32383f}.r{fill:#57789a}\
path{stroke:#fff;stroke-width:.6}.z{stroke:#1f2328}.t{stroke:none}.u{fill:#d1242f}\
.p0{fill:#4493f8}.p1{fill:#2da44e}.p2{fill:#d29922}.p3{fill:#a371f7}.p4{fill:#db6d28}\
.p5{fill:#12a5a5}.p6{fill:#e275ad}.p7{fill:#7a8f2a}.p8{fill:#6e7bd9}.p9{fill:#a0785a}\
@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.s{fill:#9198a1}\
.b{fill:#151b23;stroke:#656c76}.w{fill:#3d444d}.d{fill:#d1d9e0}.r{fill:#7d9bb8}path{stroke:#0d1117}.z{stroke:#e6edf3}.t{stroke:none}}";

/// Writes the drawing.
///
/// # Errors
/// Errors of `out`.
pub fn write(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let nodes = views(rendering);
    let columns = if nodes.len() > MANY_NODES { 6 } else { 4 };
    let palette = Palette::of(rendering, &nodes);
    let width = columns * COLUMN + 2 * MARGIN;
    let head = head_lines(rendering);
    let head_parts = head_parts(&head, width - 2 * MARGIN);
    let legend_top = MARGIN + LINE * head_parts.len() + 8;
    let nodes_top = legend_top + LINE * palette.rows(columns) + 12;
    let rows: Vec<&[NodeView<'_>]> = nodes.chunks(columns).collect();
    let heights: Vec<usize> = rows.iter().map(|row| row.iter().map(bars::height).max().unwrap_or(0)).collect();
    let unplaced_top = nodes_top + heights.iter().sum::<usize>();
    let unplaced = UnplacedGrid::of(rendering.report.unschedulable.len(), columns);
    let height = unplaced_top + unplaced.height() + MARGIN;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>",
        attribute(&head.join(" "))
    )?;
    for (at, (class, part)) in head_parts.iter().enumerate() {
        writeln!(out, "<text x=\"{MARGIN}\" y=\"{}\"{class}>{}</text>", MARGIN + 14 + LINE * at, text(part))?;
    }
    palette.write_legend((MARGIN, legend_top), columns, out)?;
    let (mut top, largest) = (nodes_top, bars::largest(&nodes));
    for (row, height) in rows.into_iter().zip(heights) {
        for (column, node) in row.iter().enumerate() {
            let place = NodeBox { x: MARGIN + column * COLUMN, y: top, width: COLUMN - 12, height: height - 12 };
            bars::write_node(rendering, node, (&palette, &largest), place, out)?;
        }
        top += height;
    }
    write_unplaced(rendering, unplaced_top, &unplaced, out)?;
    writeln!(out, "</svg>")
}

/// The plan in two or more sentences.
fn head_lines(rendering: &Rendering<'_>) -> Vec<String> {
    let mut lines = vec![table::outcome(rendering)];
    if let Some(summary) = rendering.repacking {
        lines.push(repacking::headline(summary).replace(":", "."));
        lines.push(repacking::effect(rendering, summary));
    }
    lines.push(format!("New nodes: {}", table::cost(rendering)));
    lines
}

/// The sentences in parts that fit into `width` pixels, with the class of each. Fonts differ: a character counts as one of a
/// wide font.
fn head_parts(head: &[String], width: usize) -> Vec<(&'static str, String)> {
    let parts = head.iter().enumerate().flat_map(|(at, line)| {
        let (class, character) = if at == 0 { (" class=\"h\"", 10) } else { ("", 8) };
        wrapped(line, width / character).into_iter().map(move |part| (class, part))
    });
    parts.collect()
}

/// How pods without a place are arranged: with their names, or only as tiles if they are many.
struct UnplacedGrid {
    pods: usize,
    /// Number of pods side by side.
    across: usize,
    /// Distances to the next pod, in pixels.
    step: (usize, usize),
    has_names: bool,
}

impl UnplacedGrid {
    fn of(pods: usize, columns: usize) -> Self {
        if pods <= MANY_PODS {
            Self { pods, across: columns, step: (COLUMN, LINE), has_names: true }
        } else {
            Self { pods, across: columns * COLUMN / TILE, step: (TILE, TILE), has_names: false }
        }
    }

    /// Its height with the heading, in pixels.
    fn height(&self) -> usize {
        if self.pods == 0 { 0 } else { 28 + self.step.1 * self.pods.div_ceil(self.across) }
    }
}

/// A tile for each pod without a place.
fn write_unplaced(rendering: &Rendering<'_>, top: usize, grid: &UnplacedGrid, out: &mut dyn Write) -> io::Result<()> {
    let unplaced = &rendering.report.unschedulable;
    if unplaced.is_empty() {
        return Ok(());
    }
    let title = counted(unplaced.len(), "pod without a place", "pods without a place");
    writeln!(out, "<text x=\"{MARGIN}\" y=\"{}\" class=\"n\">{title}</text>", top + 14)?;
    for (at, entry) in unplaced.iter().enumerate() {
        let (x, y) = (MARGIN + at % grid.across * grid.step.0, top + 22 + at / grid.across * grid.step.1);
        let name = rendering.pod_name(entry.pod);
        let reason = entry.reasons.first().map(table::reason_line).unwrap_or_default();
        writeln!(
            out,
            "<path class=\"u\" data-pod=\"{}\" d=\"M{x} {y}h12v12h-12z\"><title>{}</title></path>",
            attribute(&name),
            text(&format!("{name}: {}", shortened(&reason, 200)))
        )?;
        if grid.has_names {
            writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", x + 18, y + 10, text(&shortened(&name, 38)))?;
        }
    }
    Ok(())
}
