//! Expectations: one fact per line; `#` begins a comment.

use model::MicroUsd;

use crate::pods::Pods;

/// The expected plan of a scenario.
#[derive(Debug, Default)]
pub struct Expectation {
    pub nodes: Vec<Node>,
    pub statics: Vec<Node>,
    pub placed: Vec<(Pods, String)>,
    pub unschedulable: Vec<Reason>,
    /// (pod, parts of one of its relaxations)
    pub fits_if: Vec<(Pods, Vec<String>)>,
    /// Parts that one note contains.
    pub notes: Vec<Vec<String>>,
    /// Parts that no note contains together.
    pub no_notes: Vec<Vec<String>>,
    pub cost: MicroUsd,
    pub bound: Option<MicroUsd>,
    /// Parts of the errors of the input.
    pub refused: Vec<Vec<String>>,
}

/// A machine to launch; fields that are `None` are not compared.
#[derive(Debug, Clone)]
pub struct Node {
    /// The line of the file, for messages.
    pub line: String,
    pub pool: String,
    pub capacity: String,
    pub kind: String,
    pub price: MicroUsd,
    pub credits: MicroUsd,
    pub pods: Pods,
    /// The only zone: a name, or `$x` for the same zone in all lines with `$x`, which differs from
    /// the zone of `$y`.
    pub zone: Option<String>,
    pub zones: Option<Vec<String>>,
    pub types: Option<Vec<String>>,
    pub labels: Vec<(String, String)>,
}

/// A reason why some pods are unschedulable.
#[derive(Debug)]
pub struct Reason {
    pub line: String,
    pub pods: Pods,
    /// The NodePool; `-` for reasons that no pool can change.
    pub pool: String,
    pub code: String,
    pub parts: Vec<String>,
}

impl Expectation {
    pub fn parse(name: &str, text: &str) -> Self {
        assert!(text.contains('#'), "{name}: the expectation has no comment with the reason");
        let mut all = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            all.add(line).unwrap_or_else(|| panic!("{name}: cannot read {line:?}"));
        }
        let sum = all.nodes.iter().map(|node| node.price.0 + node.credits.0).sum();
        assert_eq!(all.cost, MicroUsd(sum), "{name}: the cost is not the sum of the nodes' prices and credits");
        all
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "node" => self.nodes.push(node(line, rest)?),
            "static" => self.statics.push(node(line, rest)?),
            "placed" => {
                let (pods, node) = rest.split_once(" -> ")?;
                self.placed.push((Pods::parse(pods), node.to_owned()));
            }
            "unschedulable" => self.unschedulable.push(reason(line, rest)?),
            "fits-if" => {
                let (pods, text) = rest.split_once(": ")?;
                self.fits_if.push((Pods::parse(pods), parts(text)));
            }
            "note" => self.notes.push(parts(rest)),
            "no-note" => self.no_notes.push(parts(rest)),
            "cost" => self.cost = dollars(rest)?,
            "bound" => self.bound = Some(dollars(rest)?),
            "refused" => self.refused.push(parts(rest)),
            _ => {
                let count: usize = word.strip_suffix('x')?.parse().ok()?;
                let (kind, rest) = rest.split_once(' ')?;
                let all = if kind == "static" { &mut self.statics } else { &mut self.nodes };
                all.extend(std::iter::repeat_n(node(line, rest)?, count));
            }
        }
        Some(())
    }
}

/// `POOL CAPACITY-TYPE type=… price=… [credits=…] [zone=…] [zones=…] [types=…] [label:KEY=VALUE] pods=…`
fn node(line: &str, text: &str) -> Option<Node> {
    let mut words = text.split_whitespace();
    let mut node = Node {
        line: line.to_owned(),
        pool: words.next()?.to_owned(),
        capacity: words.next()?.to_owned(),
        kind: String::new(),
        price: MicroUsd(0),
        credits: MicroUsd(0),
        pods: Pods::parse(""),
        zone: None,
        zones: None,
        types: None,
        labels: Vec::new(),
    };
    let list = |value: &str| Some(value.split(',').map(str::to_owned).collect());
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "type" => value.clone_into(&mut node.kind),
            "price" => node.price = dollars(value)?,
            "credits" => node.credits = dollars(value)?,
            "pods" => node.pods = Pods::parse(value),
            "zone" => node.zone = Some(value.to_owned()),
            "zones" => node.zones = list(value),
            "types" => node.types = list(value),
            _ => node.labels.push((key.strip_prefix("label:")?.to_owned(), value.to_owned())),
        }
    }
    Some(node).filter(|node| !node.kind.is_empty())
}

/// `PODS POOL CODE[: part; part]`
fn reason(line: &str, text: &str) -> Option<Reason> {
    let (head, tail) = text.split_once(": ").unwrap_or((text, ""));
    let mut words = head.split_whitespace();
    Some(Reason {
        line: line.to_owned(),
        pods: Pods::parse(words.next()?),
        pool: words.next()?.to_owned(),
        code: words.next()?.to_owned(),
        parts: parts(tail),
    })
    .filter(|_| words.next().is_none())
}

fn parts(text: &str) -> Vec<String> {
    text.split("; ").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn dollars(text: &str) -> Option<MicroUsd> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().ok()?;
    let micros: i64 = format!("{decimals:0<6}").parse().ok().filter(|_| decimals.len() <= 6)?;
    Some(MicroUsd(whole * 1_000_000 + micros))
}
