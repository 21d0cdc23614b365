//! One node: its box, and a bar for each resource.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use model::Resources;
use model::resources::{CPU, MEMORY, PODS, counts_bytes};

use super::super::Rendering;
use super::markup::{attribute, shortened, text};
use super::node_view::{NodeView, requests};
use super::palette::Palette;

/// Height of name and description, in pixels.
const HEAD: usize = 44;
/// Height of a bar with the text below it, in pixels.
const BAR: usize = 36;
/// Height of the bar alone, in pixels.
const THICKNESS: usize = 16;
/// Space between the sides of a box and its content, in pixels.
const INSET: usize = 10;
/// Space below the bars and below the box, in pixels.
const FOOT: usize = 16;

/// Length below which a pod has no border, in tenths of a pixel.
const SHORT: i64 = 30;
/// By how much the shortest bar is shorter than the longest one: texts and pods have to be seen.
const SHORTEST: i64 = 4;
/// Prefix of resources of the network, which no machine is bought for.
const VPC: &str = "vpc.amazonaws.com/";

/// Where a node is drawn, in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeBox {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// Height of the node with its margin, in pixels.
pub(super) fn height(node: &NodeView<'_>) -> usize {
    HEAD + BAR * resources(node).len() + FOOT
}

/// Nothing of a node that is removed.
///
/// CPU and memory; devices, which cost money when nobody uses them; other resources if they are
/// requested, of which the number of pods only if it is what is scarce.
fn resources<'n>(node: &'n NodeView<'_>) -> Vec<&'n str> {
    if node.is_removed {
        return Vec::new();
    }
    let is_device = |name: &str| name.contains('/') && !name.starts_with(VPC);
    let is_shown = |name: &str| match name {
        CPU | MEMORY => false,
        PODS => node.is_scarce(PODS),
        name => is_device(name) || node.used(name) > 0,
    };
    let present = node.allocatable.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name.as_ref());
    [CPU, MEMORY].into_iter().chain(present.filter(|name| is_shown(name))).collect()
}

/// The largest amount of each resource that a node has: the bar of that node has the whole length.
pub(super) fn largest<'n>(nodes: &'n [NodeView<'_>]) -> BTreeMap<&'n str, i64> {
    let mut largest: BTreeMap<&str, i64> = BTreeMap::new();
    for node in nodes {
        for resource in resources(node) {
            let most = largest.entry(resource).or_default();
            *most = node.whole(resource).max(*most);
        }
    }
    largest
}

impl NodeView<'_> {
    /// Whether more than half of `name` is used, and more than of CPU and memory.
    fn is_scarce(&self, name: &str) -> bool {
        // a/b > c/d as a·d > c·b: shares without fractions.
        let (used, whole) = (i128::from(self.used(name)), i128::from(self.allocatable.get(name)));
        let exceeds = |other: &&str| {
            let (other_used, other_whole) = (i128::from(self.used(other)), i128::from(self.allocatable.get(other)));
            used * other_whole > other_used * whole
        };
        2 * used > whole && [CPU, MEMORY].iter().all(exceeds)
    }

    /// What is requested of `name`.
    fn used(&self, name: &str) -> i64 {
        self.used.get(name)
    }

    /// What its bar of `name` stands for.
    fn whole(&self, name: &str) -> i64 {
        self.allocatable.get(name).max(self.used(name))
    }
}

/// The scale of one bar: amounts to tenths of a pixel.
struct Scale<'n> {
    resource: &'n str,
    /// Amount that the whole bar stands for.
    whole: i64,
    /// Length of the bar, in tenths of a pixel.
    length: i64,
    /// Left end and top, in tenths of a pixel and pixels.
    left: i64,
    top: usize,
    filled: i64,
}

impl Scale<'_> {
    /// Adds the next `amount` to `path` as a rectangle, which is a line if it is zero. Returns its length,
    /// in tenths of a pixel.
    fn add(&mut self, amount: i64, path: &mut String) -> i64 {
        let (from, to) = (self.at(self.filled), self.at(self.filled.saturating_add(amount.max(0))));
        self.filled = self.filled.saturating_add(amount.max(0));
        let (x, width) = (tenths(self.left + from), tenths(to - from));
        // Writing to a String cannot fail.
        let _ = write!(path, "M{x} {}h{width}v{THICKNESS}h-{width}z", self.top);
        to - from
    }

    fn at(&self, amount: i64) -> i64 {
        if self.whole <= 0 {
            return 0;
        }
        let at = i128::from(self.length) * i128::from(amount) / i128::from(self.whole);
        i64::try_from(at).unwrap_or(self.length)
    }
}

/// The length of a bar for `whole`, in tenths of a pixel, if one for `largest` has the length `full`.
fn length(full: i64, whole: i64, largest: i64) -> i64 {
    let length = i128::from(full) * i128::from(whole) / i128::from(largest.max(1));
    i64::try_from(length).unwrap_or(full).clamp(full / SHORTEST, full)
}

fn tenths(tenths: i64) -> String {
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole, part) => format!("{whole}.{part}"),
    }
}

/// Writes `node` at `place`, with bars by the [`largest`] amounts.
pub(super) fn write_node(
    rendering: &Rendering<'_>,
    node: &NodeView<'_>,
    (palette, largest): (&Palette<'_>, &BTreeMap<&str, i64>),
    place: NodeBox,
    out: &mut dyn Write,
) -> io::Result<()> {
    let NodeBox { x, y, width, height } = place;
    let class = match (node.exists, node.is_removed) {
        (_, true) => " class=\"e x\"",
        (true, false) => " class=\"e\"",
        (false, false) => "",
    };
    let left = x + INSET;
    let price = node.price.map_or_else(String::new, |price| format!("${price}/h"));
    writeln!(out, "<g data-node=\"{}\"{class}>", attribute(node.name))?;
    writeln!(out, "<title>{}</title>", text(&format!("{} · {} {price}", node.name, node.description)))?;
    writeln!(out, "<rect class=\"b\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\"/>")?;
    writeln!(out, "<text class=\"n\" x=\"{left}\" y=\"{}\">{}</text>", y + 18, text(&shortened(node.name, 26)))?;
    writeln!(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{price}</text>", x + width - INSET, y + 18)?;
    writeln!(
        out,
        "<text class=\"s\" x=\"{left}\" y=\"{}\">{}</text>",
        y + 34,
        text(&shortened(&node.description, 46))
    )?;
    let mut scales: Vec<Scale<'_>> = Vec::new();
    for (at, resource) in resources(node).into_iter().enumerate() {
        let whole = node.whole(resource);
        let full = i64::try_from(10 * (width - 2 * INSET)).unwrap_or(0);
        let length = length(full, whole, largest.get(resource).copied().unwrap_or(whole));
        let (left, top) = (i64::try_from(10 * left).unwrap_or(0), y + HEAD + BAR * at);
        scales.push(Scale { resource, whole, length, left, top, filled: 0 });
    }
    write_unused(node, &scales, out)?;
    write_part(&node.daemons, &mut scales, ("d", "DaemonSet pods"), out)?;
    write_part(&node.running, &mut scales, ("r", &format!("pods that run there: {}", node.running_names)), out)?;
    for pod in &node.pods {
        write_pod(rendering, *pod, palette.class(rendering, *pod), &mut scales, out)?;
    }
    writeln!(out, "</g>")
}

/// The whole bars in grey, which the pods cover, and their texts.
fn write_unused(node: &NodeView<'_>, scales: &[Scale<'_>], out: &mut dyn Write) -> io::Result<()> {
    if scales.is_empty() {
        return Ok(());
    }
    let (mut path, mut unused) = (String::new(), Resources::new());
    for scale in scales {
        let (x, width) = (tenths(scale.left), tenths(scale.length));
        let _ = write!(path, "M{x} {}h{width}v{THICKNESS}h-{width}z", scale.top);
        let (whole, used) = (node.allocatable.get(scale.resource), node.used(scale.resource));
        unused.set(scale.resource, (whole - used).max(0));
        let percent = if whole > 0 { i128::from(used) * 100 / i128::from(whole) } else { 0 };
        let line = format!(
            "{}: {} of {}, {percent} %",
            scale.resource,
            readable(scale.resource, used),
            readable(scale.resource, whole)
        );
        writeln!(
            out,
            "<text class=\"s\" x=\"{x}\" y=\"{}\">{}</text>",
            scale.top + THICKNESS + 12,
            text(&shortened(&line, 46))
        )?;
    }
    writeln!(out, "<path class=\"w\" d=\"{path}\"><title>not requested: {}</title></path>", text(&amounts(&unused)))
}

/// A part of the node that is no pod of the plan.
fn write_part(
    requested: &Resources,
    scales: &mut [Scale<'_>],
    (class, title): (&str, &str),
    out: &mut dyn Write,
) -> io::Result<()> {
    if requested.iter().all(|(_, amount)| amount <= 0) {
        return Ok(());
    }
    let (path, _) = path_of(requested, scales);
    writeln!(
        out,
        "<path class=\"{class}\" d=\"{path}\"><title>{} ({})</title></path>",
        text(title),
        text(&amounts(requested))
    )
}

fn write_pod(
    rendering: &Rendering<'_>,
    pod: u32,
    class: usize,
    scales: &mut [Scale<'_>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let requested = requests(rendering, pod);
    let (path, length) = path_of(requested, scales);
    let name = rendering.pod_name(pod);
    // A pod without requests is a line, in the colour of the text. A short one has no border, which
    // would cover it.
    let border = match length {
        _ if requested.get(CPU) <= 0 && requested.get(MEMORY) <= 0 => " z",
        length if length < SHORT => " t",
        _ => "",
    };
    writeln!(
        out,
        "<path class=\"p{class}{border}\" data-pod=\"{}\" d=\"{path}\"><title>{} ({})</title></path>",
        attribute(&name),
        text(&name),
        text(&amounts(requested))
    )
}

/// A rectangle in each bar, and the length of the longest, in tenths of a pixel.
fn path_of(requested: &Resources, scales: &mut [Scale<'_>]) -> (String, i64) {
    let mut path = String::new();
    let lengths = scales.iter_mut().map(|scale| scale.add(requested.get(scale.resource), &mut path));
    let longest = lengths.max().unwrap_or(0);
    (path, longest)
}

/// The amounts without the number of pods: `cpu 1.5, memory 2.0Gi`.
fn amounts(resources: &Resources) -> String {
    let shown = resources.iter().filter(|(name, _)| name.as_ref() != PODS);
    let shown: Vec<String> = shown.map(|(name, amount)| format!("{name} {}", readable(name, amount))).collect();
    if shown.is_empty() { "no requests".to_owned() } else { shown.join(", ") }
}

/// An amount with at most three decimals, rounded down.
fn readable(resource: &str, amount: i64) -> String {
    let thousandths = |unit: i64, suffix: &str| {
        let thousandths = i128::from(amount) * 1000 / i128::from(unit);
        let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match resource {
        CPU => thousandths(1000, ""),
        name if counts_bytes(name) && amount >= 1 << 30 => thousandths(1 << 30, "Gi"),
        name if counts_bytes(name) => thousandths(1 << 20, "Mi"),
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_readable() {
        assert_eq!(readable(CPU, 1500), "1.5");
        assert_eq!(readable(CPU, 3920), "3.92");
        assert_eq!(readable(CPU, 4), "0.004");
        assert_eq!(readable(MEMORY, 3 << 29), "1.5Gi");
        assert_eq!(readable(MEMORY, 256 << 20), "256Mi");
        assert_eq!(readable("nvidia.com/gpu", 2), "2");
    }

    #[test]
    fn a_bar_is_as_long_as_its_amount_and_no_shorter_than_a_quarter() {
        assert_eq!([8, 4, 2, 1, 0].map(|cpus| length(2640, cpus, 8)), [2640, 1320, 660, 660, 660]);
        // Of a resource that no node has.
        assert_eq!(length(2640, 0, 0), 660);
    }

    #[test]
    fn shares_touch_and_end_with_the_bar() {
        // 100 px for 3 CPUs: 33.3, 66.6 and 100 px.
        let mut scale = Scale { resource: CPU, whole: 3000, length: 1000, left: 50, top: 7, filled: 0 };
        let mut path = String::new();
        let lengths: Vec<i64> = (0..3).map(|_| scale.add(1000, &mut path)).collect();
        assert_eq!(lengths, [333, 333, 334]);
        assert_eq!(path, "M5 7h33.3v16h-33.3zM38.3 7h33.3v16h-33.3zM71.6 7h33.4v16h-33.4z");
    }
}
