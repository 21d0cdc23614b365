//! Colours of workloads: one each for those with the most pods, one for all others.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::super::Rendering;
use super::layout::{COLUMN, LINE};
use super::markup::{shortened, text};
use super::node_view::NodeView;

/// Number of workloads with a colour of their own; the class after them is for all others.
const OWN_COLOURS: usize = 9;

/// The colour class of each workload.
pub(super) struct Palette<'r> {
    classes: BTreeMap<(&'r str, &'r str), usize>,
    legend: Vec<(String, String)>,
}

impl<'r> Palette<'r> {
    /// Colours for the workloads of all pods on `nodes`.
    pub(super) fn of(rendering: &Rendering<'r>, nodes: &[NodeView<'r>]) -> Self {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for pod in nodes.iter().flat_map(|node| &node.pods) {
            *counts.entry(workload(rendering, *pod)).or_default() += 1;
        }
        let mut counts: Vec<((&str, &str), usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(name, count)| (Reverse(*count), *name));
        let own = counts.iter().take(OWN_COLOURS).map(|((namespace, workload), count)| {
            let name = workload.split_once('/').map_or(*workload, |(_, name)| name);
            format!("{namespace}/{name} ×{count}")
        });
        let mut legend: Vec<(String, String)> =
            own.enumerate().map(|(class, name)| (format!("p{class}"), name)).collect();
        let others: usize = counts.iter().skip(OWN_COLOURS).map(|(_, count)| count).sum();
        if others > 0 {
            legend.push((format!("p{OWN_COLOURS}"), format!("other workloads ×{others}")));
        }
        if nodes.iter().any(|node| !node.running.is_empty()) {
            legend.push(("r".to_owned(), "pods that run there already".to_owned()));
        }
        if nodes.iter().any(|node| node.daemons.iter().any(|(_, amount)| amount > 0)) {
            legend.push(("d".to_owned(), "DaemonSet pods".to_owned()));
        }
        legend.push(("w".to_owned(), "not requested".to_owned()));
        let classes = counts.into_iter().zip(0..OWN_COLOURS).map(|((name, _), class)| (name, class)).collect();
        Self { classes, legend }
    }

    /// Number of the colour class of a pod.
    pub(super) fn class(&self, rendering: &Rendering<'r>, pod: u32) -> usize {
        self.classes.get(&workload(rendering, pod)).copied().unwrap_or(OWN_COLOURS)
    }

    /// Number of rows of the legend.
    pub(super) fn rows(&self, columns: usize) -> usize {
        self.legend.len().div_ceil(columns)
    }

    /// Writes the legend with its corner at `(x, y)`.
    pub(super) fn write_legend(&self, (x, y): (usize, usize), columns: usize, out: &mut dyn Write) -> io::Result<()> {
        for (at, (class, name)) in self.legend.iter().enumerate() {
            let (x, y) = (x + at % columns * COLUMN, y + at / columns * LINE);
            let name = shortened(name, 38);
            writeln!(
                out,
                "<path class=\"{class}\" d=\"M{x} {y}h12v12h-12z\"/><text x=\"{}\" y=\"{}\">{}</text>",
                x + 18,
                y + 10,
                text(&name)
            )?;
        }
        Ok(())
    }
}

fn workload<'r>(rendering: &Rendering<'r>, pod: u32) -> (&'r str, &'r str) {
    let pod = rendering.pod(pod);
    (pod.namespace.as_ref(), pod.workload.as_ref())
}
