use super::*;
use crate::temporary_file::TemporaryFile;

fn invoke(flags: &[&str], environment: &[(&str, &str)]) -> Result<Invocation, InvocationError> {
    let arguments = std::iter::once("fleetwright-agent").chain(flags.iter().copied()).map(OsString::from);
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Invocation::read(arguments, environment)
}

/// The settings of these flags, with an address and a name.
fn with(flags: &[&str]) -> Result<Config, ConfigError> {
    let all = [&["--server", "http://s:1", "--cluster-name", "blue"], flags].concat();
    Config::resolve(&invoke(&all, &[]).unwrap().layers)
}

fn refusal(flags: &[&str]) -> String {
    with(flags).unwrap_err().to_string()
}

#[test]
fn a_flag_outweighs_a_variable_and_a_variable_the_file() {
    let file = TemporaryFile::new("[server]\naddress = \"http://f:1\"\n[cluster]\nname = \"f\"\nregion = \"f\"\n");
    let path = file.0.to_str().unwrap();
    let environment = [
        ("FLEETWRIGHT_AGENT_CONFIG", path),
        ("FLEETWRIGHT_AGENT_CLUSTER_NAME", "v"),
        ("FLEETWRIGHT_AGENT_SERVER", "http://v:1"),
    ];
    let config = Config::resolve(&invoke(&["--server", "http://s:1"], &environment).unwrap().layers).unwrap();
    assert_eq!(
        (config.server.address.as_str(), config.cluster_name.as_str(), config.region.as_str()),
        ("http://s:1", "v", "f")
    );
    assert_eq!((config.log_filter.as_str(), config.kubernetes.lease_duration), ("info", Duration::from_secs(15)));
}

#[test]
fn variables_that_kubernetes_makes_for_a_service_of_our_name_are_passed_over() {
    let environment = [("FLEETWRIGHT_AGENT_SERVICE_HOST", "10.0.0.1"), ("FLEETWRIGHT_AGENT_PORT", "tcp://10.0.0.1:1")];
    assert!(invoke(&[], &environment).is_ok());
}

#[test]
fn what_is_missing_is_named_in_all_three_ways() {
    let error = Config::resolve(&invoke(&["--cluster-name", "blue"], &[]).unwrap().layers).unwrap_err().to_string();
    for way in ["--server", "FLEETWRIGHT_AGENT_SERVER", "`server.address = "] {
        assert!(error.contains(way), "{error}");
    }
}

#[test]
fn what_is_not_allowed_is_refused_with_its_value_and_where_it_was_written() {
    for (flags, part) in [
        (&["--server", "s:1"][..], "flag --server: server.address is \"s:1\""),
        (&["--server", "https://s:1"], "server.ca-file"),
        (&["--cluster-name", "a b"], "\"a b\""),
        (&["--log-format", "xml"], "text or json"),
        (&["--log", "="], "module=level"),
        (&["--lease-duration", "soon"], "such as 500ms"),
        (&["--lease-duration", "2s"], "at least 3s"),
        (&["--client-key", "k"], "belong together"),
        (&["--streaming-lists", "yes"], "true or false"),
    ] {
        // The command line rejects a repeated flag; here the last pair replaces the first.
        let all = [&["--server", "http://s:1", "--cluster-name", "blue"], flags].concat();
        let mut layers = Layers::default();
        for pair in all.chunks(2) {
            let key = KEYS.iter().find(|key| format!("--{}", key.flag) == pair[0]).unwrap();
            layers.add(key, pair[1].to_owned(), Origin::Flag(key.flag));
        }
        let error = Config::resolve(&layers).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn credentials_travel_only_encrypted_or_within_this_machine() {
    assert!(refusal(&["--token-file", "t"]).contains("only over https"));
    assert!(refusal(&["--client-certificate", "c", "--client-key", "k"]).contains("only over https"));
    let local = ["--server", "http://127.0.0.1:1", "--cluster-name", "blue", "--token-file", "t"];
    assert!(Config::resolve(&invoke(&local, &[]).unwrap().layers).is_ok());
}

#[test]
fn a_key_that_does_not_exist_is_an_error() {
    let file = TemporaryFile::new("[server]\nadress = \"http://f:1\"\n");
    let error = invoke(&["--config", file.0.to_str().unwrap()], &[]).unwrap_err().to_string();
    assert!(error.contains("server.adress"), "{error}");
    let error = invoke(&["--config", "/nonexistent/agent.toml"], &[]).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/agent.toml"), "{error}");
}

#[test]
fn printed_settings_are_read_back_unchanged() {
    let flags = ["--server", "http://s:1", "--cluster-name", "blue", "--region", "eu-west-1", "--log", "debug"];
    let layers = invoke(&flags, &[]).unwrap().layers;
    let file = TemporaryFile::new(&print(&layers));
    let again = invoke(&["--config", file.0.to_str().unwrap()], &[]).unwrap().layers;
    assert_eq!(Config::resolve(&again).unwrap(), Config::resolve(&layers).unwrap());
}

#[test]
fn the_file_that_deployments_start_from_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/agent.toml");
    let layers = invoke(&["--config", path], &[]).unwrap().layers;
    assert_eq!(Config::resolve(&layers).unwrap().cluster_name, "production-1");
}

#[test]
fn the_bound_on_removals_and_the_probes_are_read_and_checked() {
    let config = with(&[]).unwrap();
    assert_eq!(config.guard, GuardConfig { removals: 1_000, window: Duration::from_secs(600) });
    assert_eq!((config.karpenter_absent, config.probe_address), (false, None));
    let file = TemporaryFile::new(
        "[server]\naddress = \"http://f:1\"\n[cluster]\nname = \"f\"\n[guard]\nremovals = 5\nwindow = \"1m\"\n[agent]\nkarpenter-absent = true\n",
    );
    let path = file.0.to_str().unwrap();
    let config = Config::resolve(
        &invoke(&["--probe-address", "127.0.0.1:7460"], &[("FLEETWRIGHT_AGENT_CONFIG", path)]).unwrap().layers,
    )
    .unwrap();
    assert_eq!(config.guard, GuardConfig { removals: 5, window: Duration::from_secs(60) });
    assert_eq!((config.karpenter_absent, config.probe_address), (true, Some("127.0.0.1:7460".parse().unwrap())));
    assert!(refusal(&["--guard-removals", "many"]).contains("a whole number"));
    assert!(refusal(&["--probe-address", "7460"]).contains("an address and a port"));
}
