use std::io::Write;

use super::*;

fn arguments() -> Arguments {
    Arguments { server: Some("http://s:1".into()), cluster_name: Some("blue".into()), ..Arguments::default() }
}

/// A configuration file that is removed with the value.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fleetwright-agent-{}-{name}.toml", std::process::id()));
        fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        Self(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[test]
fn a_flag_outweighs_the_file_and_the_file_the_default() {
    let file =
        TemporaryFile::new("weights", "server = \"http://f:1\"\nregion = \"eu-west-1\"\nlog_format = \"json\"\n");
    let config = Config::resolve(&Arguments { config: Some(file.0.clone()), ..arguments() }).unwrap();
    assert_eq!(config.server, "http://s:1");
    assert_eq!(config.region, "eu-west-1");
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(config.log, "info");
}

#[test]
fn what_is_missing_is_named_in_all_three_ways() {
    let error = Config::resolve(&Arguments { server: None, ..arguments() }).unwrap_err().to_string();
    for way in ["--server", "FLEETWRIGHT_AGENT_SERVER", "`server = "] {
        assert!(error.contains(way), "{error}");
    }
}

#[test]
fn what_is_not_allowed_is_refused_with_its_value() {
    let of = |change: fn(&mut Arguments)| {
        let mut given = arguments();
        change(&mut given);
        Config::resolve(&given).unwrap_err().to_string()
    };
    assert!(of(|a| a.server = Some("s:1".into())).contains("\"s:1\""));
    assert!(of(|a| a.server = Some("https://s:1".into())).contains("ca_file"));
    assert!(of(|a| a.cluster_name = Some("a b".into())).contains("\"a b\""));
    assert!(of(|a| a.cluster_name = Some(String::new())).contains("1 to 100"));
    assert!(of(|a| a.log_format = Some("xml".into())).contains("text or json"));
    assert!(of(|a| a.log = Some("=".into())).contains("module=level"));
}

#[test]
fn a_key_that_does_not_exist_is_an_error() {
    let file = TemporaryFile::new("unknown", "sever = \"http://f:1\"\n");
    let error = Config::resolve(&Arguments { config: Some(file.0.clone()), ..arguments() }).unwrap_err().to_string();
    assert!(error.contains("sever"), "{error}");
    let nowhere = Arguments { config: Some("/nonexistent/agent.toml".into()), ..arguments() };
    assert!(Config::resolve(&nowhere).unwrap_err().to_string().contains("/nonexistent/agent.toml"));
}

#[test]
fn printed_settings_are_read_back_unchanged() {
    let config = Config::resolve(&arguments()).unwrap();
    let printed = toml::to_string(&config).unwrap();
    let file = TemporaryFile::new("printed", &printed);
    let again = Config::resolve(&Arguments { config: Some(file.0.clone()), ..Arguments::default() }).unwrap();
    assert_eq!(again, config);
}
