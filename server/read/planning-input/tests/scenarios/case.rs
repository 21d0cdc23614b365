//! Scenarios, read from files.

use std::path::{Path, PathBuf};

use manifests::Source;
use model::Timestamp;
use model::input::{MinValuesPolicy, PreferencePolicy};
use planning_input::{AutoscaledReplicas, Options};

use crate::expectation::Expectation;

/// A scenario: its input and its expected plan.
pub struct Case {
    /// `GROUP/NAME`.
    pub name: String,
    /// Its manifests and those of its preludes.
    pub sources: Vec<Source>,
    pub options: Options,
    pub expected: Expectation,
}

/// The scenarios of `folder`, by name. `catalogue` and `prelude` are the defaults of scenarios
/// without such flags.
pub fn discover(folder: &Path, catalogue: &str, prelude: &str) -> Vec<Case> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let with =
        |extension: &'static str| names.iter().filter(move |path| path.extension().is_some_and(|e| e == extension));
    for path in with("expect") {
        assert!(path.with_extension("yaml").exists(), "{} has no manifests beside it", path.display());
    }
    with("yaml").map(|path| open(path, catalogue, prelude)).collect()
}

fn open(path: &Path, catalogue: &str, prelude: &str) -> Case {
    let group = path.parent().unwrap().file_name().unwrap().to_string_lossy();
    let name = format!("{group}/{}", path.file_stem().unwrap().to_string_lossy());
    let mut setting = Setting { catalogue: catalogue.into(), prelude: prelude.into(), options: Options::default() };
    let bytes = std::fs::read(path).unwrap();
    setting.read(&name, &String::from_utf8_lossy(&bytes));
    let own = path.with_extension("catalogue.json");
    let mut options = setting.options;
    options.catalogue = match setting.catalogue.as_str() {
        _ if own.exists() => Some(source(&own)),
        "built-in" => None,
        name => Some(shared("catalogues", name, "json")),
    };
    let preludes = setting.prelude.split(',').filter(|prelude| *prelude != "none");
    let mut sources: Vec<Source> = preludes.map(|prelude| shared("preludes", prelude, "yaml")).collect();
    sources.push(Source { name: format!("{name}.yaml"), bytes });
    let expected = path.with_extension("expect");
    let text = std::fs::read_to_string(&expected).unwrap_or_else(|e| panic!("{}: {e}", expected.display()));
    Case { expected: Expectation::parse(&name, &text), name, sources, options }
}

fn shared(folder: &str, name: &str, extension: &str) -> Source {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    source(&root.join(folder).join(format!("{name}.{extension}")))
}

fn source(path: &Path) -> Source {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Source { name: path.display().to_string(), bytes }
}

/// The flags of the line `# flags: …` at the head of the manifests.
struct Setting {
    catalogue: String,
    prelude: String,
    options: Options,
}

impl Setting {
    fn read(&mut self, name: &str, text: &str) {
        let head = text.lines().take_while(|line| line.starts_with('#'));
        let lines = head.filter_map(|line| line.strip_prefix("# flags:"));
        let mut words = lines.flat_map(str::split_whitespace);
        while let Some(flag) = words.next() {
            let value = if flag == "--strict" { "" } else { words.next().unwrap_or_else(|| panic!("{name}: {flag}")) };
            self.set(name, flag, value);
        }
    }

    fn set(&mut self, name: &str, flag: &str, value: &str) {
        let options = &mut self.options;
        match (flag, value) {
            ("--catalogue", _) => value.clone_into(&mut self.catalogue),
            ("--with", _) => value.clone_into(&mut self.prelude),
            ("--strict", _) => options.strict = true,
            ("--region", _) => options.region = Some(value.to_owned()),
            ("--now", _) => {
                options.now = Timestamp::from_millis(value.parse::<jiff::Timestamp>().unwrap().as_millisecond())
            }
            ("--preference-policy", "Ignore") => options.preferences = PreferencePolicy::Ignore,
            ("--min-values-policy", "BestEffort") => options.min_values = MinValuesPolicy::BestEffort,
            ("--hpa", "max") => options.autoscaled_replicas = AutoscaledReplicas::Max,
            ("--node-overhead-usd", _) => {
                options.node_overhead = manifests::karpenter::opt_in::parse_micros(value).map(model::MicroUsd)
            }
            ("--search", _) => options.search_steps = value.parse().unwrap(),
            ("--min-nodes", _) => options.min_nodes = Some(value.parse().unwrap()),
            ("--max-node-vcpu", _) => options.max_node_vcpu = Some(value.parse().unwrap()),
            ("--reservation", _) => {
                let (id, count) = value.split_once('=').unwrap();
                options.reservations.push((id.to_owned(), count.parse().unwrap()));
            }
            _ => panic!("{name}: there is no flag {flag} {value}"),
        }
    }
}
