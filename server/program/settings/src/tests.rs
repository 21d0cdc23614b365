use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::ValueType::{Boolean, Dollars, Duration, LogFilter, Number, Percent, Text};
use crate::{Key, Layers, Origin, Schema, keys, print};

const KEYS: &[Key] = keys! {
    "SHOP_";
    ["store"]
    "url": Text, "", "postgres://host/db",
        "Where the state is.", secret;
    "keep-log": Duration, "24h", "3d",
        "Retention of the log.";
    "connections": Number, "10", "20",
        "Maximum number of connections.";

    ["plan"]
    "cpu": Percent, "25", "50",
        "Percent of the processors.";
    "least-savings": Dollars, "0", "0.05",
        "Dollars per hour.";
    "search": Boolean, "true", "false",
        "Whether to search.";

    ["log"]
    "filter": LogFilter("a level"), "info", "debug",
        "What to log.";
};

const SCHEMA: Schema = Schema {
    keys: KEYS,
    prefix: "SHOP_",
    other_variables: &["SHOP_CONFIG", "SHOP_AGENT_"],
    external_variables: &[("DATABASE_URL", "store.url")],
    former_flags: &[("log.filter", "log")],
    renamed: &[("planner-", "plan-")],
    permits_quotes: false,
    all_keys: "`shop --help`",
};

const LENIENT: Schema = Schema { permits_quotes: true, ..SCHEMA };

/// A file with this text, which is removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(test: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("settings-{test}-{}.toml", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn with_environment(pairs: &[(&str, &str)]) -> Layers {
    let mut layers = Layers::new(&SCHEMA);
    layers.add_environment(variables(pairs));
    layers
}

fn errors(layers: &Layers) -> Vec<String> {
    layers.check().map_or_else(|errors| errors.messages(), |()| Vec::new())
}

#[test]
fn all_errors_are_returned_names_and_types_first_and_then_values() {
    let text = "[plan]\ncpu = 150\nsearch = \"yes\"\n[store]\nkeep-lg = \"1d\"\nkeep-log = \"two weeks\"\n[planner]\nsearch = true\n";
    let file = File::new("errors", text);
    let mut layers = Layers::new(&SCHEMA);
    layers.add_file(&file.0);
    layers.add_environment(variables(&[
        ("SHOP_COLOUR", "red"),
        ("SHOP_PLANNER_CPU", "3"),
        ("SHOP_STORE_KEEP_LGO", "1d"),
    ]));
    // Errors of names and types come in the order of the lines, then those of variables by name, and then those of
    // values in the order of the keys.
    let expected = [
        ":3: plan.search has a value of type string; write true or false, as in `search = false`",
        ":5: there is no key \"store.keep-lg\"; did you mean \"store.keep-log\"?",
        ":8: there is no key \"planner.search\" any more; its name is \"plan.search\" now",
        "environment variable SHOP_COLOUR: there is no key \"SHOP_COLOUR\"; `shop --help` lists every key",
        "no key \"SHOP_PLANNER_CPU\" any more; its name is \"SHOP_PLAN_CPU\" now",
        "no key \"SHOP_STORE_KEEP_LGO\"; did you mean \"SHOP_STORE_KEEP_LOG\"?",
        ":6: store.keep-log is \"two weeks\"; write a duration such as 500ms, 10s, 2m, 1h or 1d",
        ":2: plan.cpu is \"150\"; write a percentage from 0 to 100, without a sign",
    ];
    let errors = errors(&layers);
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_with_its_path() {
    let mut layers = Layers::new(&SCHEMA);
    layers.add_file(Path::new("/nonexistent/shop.toml"));
    assert!(errors(&layers)[0].starts_with("configuration file /nonexistent/shop.toml: No such file"));
}

#[test]
fn a_variable_of_the_program_overrides_one_of_another_project_and_a_former_one() {
    let layers = with_environment(&[("DATABASE_URL", "a"), ("SHOP_LOG", "warn"), ("SHOP_LOG_FILTER", "debug")]);
    assert_eq!(layers.get("store.url"), ("a", &Origin::Environment("DATABASE_URL".to_owned())));
    assert_eq!(layers.text("log.filter"), "debug");
    assert_eq!(with_environment(&[("DATABASE_URL", "a"), ("SHOP_STORE_URL", "b")]).text("store.url"), "b");
    assert_eq!(with_environment(&[("SHOP_LOG", "warn")]).text("log.filter"), "warn");
}

#[test]
fn variables_that_set_no_key_are_ignored_only_by_their_whole_names() {
    let known = [("SHOP_CONFIG", "x"), ("SHOP_AGENT_COLOUR", "x"), ("SHOP_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(errors(&with_environment(&known)), Vec::<String>::new());
    assert_eq!(errors(&with_environment(&[("SHOP_CONFIGS", "x")])).len(), 1);
}

#[test]
fn a_secret_is_neither_printed_nor_part_of_an_error() {
    let layers = with_environment(&[("SHOP_STORE_URL", "hunter2")]);
    let printed = print(&layers);
    assert!(printed.contains("[store]\nurl = \"(hidden)\" # environment variable SHOP_STORE_URL\n"), "{printed}");
    let error = layers.parsed("store.url", |_| None::<()>).expect_err("no value").to_string();
    assert_eq!(error, "environment variable SHOP_STORE_URL: store.url is \"(hidden)\"; write a text");
}

#[test]
fn the_printed_settings_are_a_valid_file() {
    let file = File::new("printed", &print(&Layers::new(&SCHEMA)));
    let mut again = Layers::new(&SCHEMA);
    again.add_file(&file.0);
    assert_eq!(errors(&again), Vec::<String>::new());
    assert!(matches!(again.get("store.keep-log"), ("24h", Origin::File { line: 3, .. })));
}

#[test]
fn numbers_in_quotes_are_read_only_where_they_are_permitted() {
    let file = File::new("quotes", "[store]\nconnections = \"5\"\n[plan]\nleast-savings = 0.05\n");
    let [mut strict, mut lenient] = [Layers::new(&SCHEMA), Layers::new(&LENIENT)];
    [&mut strict, &mut lenient].into_iter().for_each(|layers| layers.add_file(&file.0));
    assert_eq!(errors(&strict).len(), 1);
    assert_eq!((lenient.number("store.connections").expect("a number"), errors(&lenient).len()), (5, 0));
    assert_eq!(lenient.text("plan.least-savings"), "0.05");
}
