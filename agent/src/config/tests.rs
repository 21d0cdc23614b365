use settings::print;

use super::*;
use crate::temporary_file::TemporaryFile;

fn invoke(flags: &[&str], environment: &[(&str, &str)]) -> Result<Invocation, InvocationError> {
    let arguments = std::iter::once("fleetwright-agent").chain(flags.iter().copied()).map(OsString::from);
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Invocation::read(arguments, environment)
}

/// The settings of these flags, with an address and a name.
fn with(flags: &[&str]) -> Result<Config, ConfigErrors> {
    let all = [&["--server-address", "http://s:1", "--cluster-name", "blue"], flags].concat();
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
        ("FLEETWRIGHT_AGENT_SERVER_ADDRESS", "http://v:1"),
    ];
    let config = Config::resolve(&invoke(&["--server-address", "http://s:1"], &environment).unwrap().layers).unwrap();
    assert_eq!(
        (config.server.address.as_str(), config.cluster_name.as_str(), config.region.as_str()),
        ("http://s:1", "v", "f")
    );
    assert_eq!((config.log_filter.as_str(), config.kubernetes.lease_duration), ("info", Duration::from_secs(15)));
}

#[test]
fn variables_that_kubernetes_makes_for_a_service_of_our_name_are_passed_over() {
    // The Services fleetwright-agent and fleetwright-agent-canary.
    let environment = [
        ("FLEETWRIGHT_AGENT_SERVICE_HOST", "10.0.0.1"),
        ("FLEETWRIGHT_AGENT_SERVICE_PORT", "7460"),
        ("FLEETWRIGHT_AGENT_SERVICE_PORT_PROBES", "7460"),
        ("FLEETWRIGHT_AGENT_PORT", "tcp://10.0.0.1:7460"),
        ("FLEETWRIGHT_AGENT_PORT_7460_TCP", "tcp://10.0.0.1:7460"),
        ("FLEETWRIGHT_AGENT_PORT_7460_TCP_PROTO", "tcp"),
        ("FLEETWRIGHT_AGENT_PORT_7460_TCP_PORT", "7460"),
        ("FLEETWRIGHT_AGENT_PORT_7460_TCP_ADDR", "10.0.0.1"),
        ("FLEETWRIGHT_AGENT_CANARY_SERVICE_HOST", "10.0.0.2"),
    ];
    assert!(invoke(&[], &environment).is_ok());
    assert!(invoke(&[], &[("FLEETWRIGHT_AGENT_PROBE_PORT", "7460")]).is_err());
}

#[test]
fn what_is_missing_is_named_in_all_three_ways() {
    let error = Config::resolve(&invoke(&["--cluster-name", "blue"], &[]).unwrap().layers).unwrap_err().to_string();
    for way in ["--server-address", "FLEETWRIGHT_AGENT_SERVER_ADDRESS", "`server.address = "] {
        assert!(error.contains(way), "{error}");
    }
}

#[test]
fn what_is_not_allowed_is_refused_with_its_value_and_where_it_was_written() {
    for (flags, part) in [
        (&["--server-address", "s:1"][..], "flag --server-address: server.address is \"s:1\""),
        (&["--server-address", "https://s:1"], "server.ca-file"),
        (&["--cluster-name", "a b"], "\"a b\""),
        (&["--log-format", "xml"], "text or json"),
        (&["--log-filter", "="], "module=level"),
        (&["--log-filter", "verbose"], "(off, error, warn, info, debug, trace)"),
        (&["--kubernetes-lease-duration", "soon"], "such as 500ms, 10s, 2m, 1h or 1d"),
        (&["--kubernetes-lease-duration", "2s"], "at least 3s"),
        (&["--server-client-key", "k"], "belong together"),
        (&["--kubernetes-streaming-lists", "yes"], "true or false"),
        (&["--cluster-api-endpoint", "http://api:6443"], "https://host:port"),
        (&["--cluster-api-endpoint", "https://"], "https://host:port"),
        (&["--cluster-service-cidr", "10.100.0.0"], "such as 10.100.0.0/16"),
        (&["--cluster-service-cidr", "10.100.0.0/33"], "such as 10.100.0.0/16"),
    ] {
        // The command line rejects a repeated flag; here the last pair replaces the first.
        let all = [&["--server-address", "http://s:1", "--cluster-name", "blue"], flags].concat();
        let mut layers = Layers::new(&SCHEMA);
        for pair in all.chunks(2) {
            let key = KEYS.iter().find(|key| format!("--{}", key.flag) == pair[0]).unwrap();
            layers.add_flag(key, pair[1].to_owned());
        }
        let error = Config::resolve(&layers).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn credentials_travel_only_encrypted_or_within_this_machine() {
    assert!(refusal(&["--server-token-file", "t"]).contains("only over https"));
    assert!(refusal(&["--server-client-certificate", "c", "--server-client-key", "k"]).contains("only over https"));
    let local = ["--server-address", "http://127.0.0.1:1", "--cluster-name", "blue", "--server-token-file", "t"];
    assert!(Config::resolve(&invoke(&local, &[]).unwrap().layers).is_ok());
}

#[test]
fn a_key_that_does_not_exist_is_an_error_with_its_line_and_the_nearest_key() {
    let file = TemporaryFile::new("# settings\n[server]\nadress = \"http://f:1\"\n");
    let path = file.0.to_str().unwrap();
    let error = invoke(&["--config", path], &[]).unwrap_err().to_string();
    assert_eq!(error, format!("{path}:3: there is no key \"server.adress\"; did you mean \"server.address\"?"));
    let error = invoke(&["--config", "/nonexistent/agent.toml"], &[]).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/agent.toml"), "{error}");
}

#[test]
fn the_flag_and_the_variable_of_a_key_are_derived_from_it() {
    for key in KEYS {
        assert_eq!(key.flag, key.path.replace('.', "-"));
    }
    let variable = KEYS.iter().find(|key| key.path == "kubernetes.lease-duration").unwrap().variable();
    assert_eq!(variable, "FLEETWRIGHT_AGENT_KUBERNETES_LEASE_DURATION");
}

#[test]
fn former_flags_and_variables_set_the_same_keys() {
    let former =
        ["--server", "http://s:1", "--cluster-name", "blue", "--region", "r", "--lease", "l", "--log", "debug"];
    let config = Config::resolve(&invoke(&former, &[]).unwrap().layers).unwrap();
    assert_eq!((config.server.address.as_str(), config.region.as_str()), ("http://s:1", "r"));
    assert_eq!((config.kubernetes.lease.as_str(), config.log_filter.as_str()), ("l", "debug"));
    let environment = [
        ("FLEETWRIGHT_AGENT_SERVER", "http://s:1"),
        ("FLEETWRIGHT_AGENT_CLUSTER_NAME", "blue"),
        ("FLEETWRIGHT_AGENT_KARPENTER_ABSENT", "true"),
        ("FLEETWRIGHT_AGENT_REGION", "former"),
        ("FLEETWRIGHT_AGENT_CLUSTER_REGION", "present"),
    ];
    let config = Config::resolve(&invoke(&[], &environment).unwrap().layers).unwrap();
    assert_eq!((config.server.address.as_str(), config.karpenter_absent), ("http://s:1", true));
    assert_eq!(config.region, "present");
}

#[test]
fn a_variable_that_sets_no_key_is_an_error_with_the_nearest_variable_and_without_its_value() {
    for (variable, nearest) in [
        ("FLEETWRIGHT_AGENT_CLUSTER", "FLEETWRIGHT_AGENT_CLUSTER_NAME"),
        ("FLEETWRIGHT_AGENT_SERVER_ADRESS", "FLEETWRIGHT_AGENT_SERVER_ADDRESS"),
        ("FLEETWRIGHT_AGENT_SERVER_TOKEN", "FLEETWRIGHT_AGENT_SERVER_TOKEN_FILE"),
    ] {
        let error = invoke(&[], &[(variable, "c0ffee")]).unwrap_err().to_string();
        assert!(error.contains(&format!("did you mean \"{nearest}\"?")), "{error}");
        assert!(!error.contains("c0ffee"), "{error}");
    }
    let error = invoke(&[], &[("FLEETWRIGHT_AGENT_COLOUR", "red")]).unwrap_err().to_string();
    assert!(error.contains("`fleetwright-agent --help` lists every key"), "{error}");
}

#[test]
fn a_flag_that_does_not_exist_is_an_error_with_the_nearest_flag() {
    for (flag, nearest) in
        [("--server-adress", "--server-address"), ("--name", "--cluster-name"), ("--prnt-config", "--print-config")]
    {
        let error = invoke(&[flag, "x"], &[]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("error: there is no flag {flag}; did you mean {nearest}?")), "{error}");
    }
    let error = invoke(&["--colour", "x"], &[]).unwrap_err().to_string();
    assert!(error.contains("unexpected argument '--colour'"), "{error}");
}

#[test]
fn the_help_has_type_key_variable_and_default_of_every_setting_and_no_former_flag() {
    let InvocationError::CommandLine(help) = invoke(&["--help"], &[]).unwrap_err() else { panic!("no help") };
    let words = help.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for key in KEYS {
        assert!(words.contains(&format!("--{} <", key.flag)), "{}", key.flag);
        let facts = format!("[key: {}] [env: {}]", key.path, key.variable());
        assert!(words.contains(&facts), "{facts}");
    }
    let duration = "--kubernetes-lease-duration <DURATION>";
    assert!(words.contains(duration) && words.contains("[default: 15s]"), "{words}");
    assert!(!words.contains("--server <") && !words.contains("--log <"), "{words}");
}

#[test]
fn durations_have_units_up_to_days() {
    // 1 h is 3,600 s, and 1 d 86,400 s.
    for (text, seconds) in [("90s", 90), ("2m", 120), ("1h", 3_600), ("1d", 86_400)] {
        let config = with(&["--kubernetes-lease-duration", text, "--guard-window", text]).unwrap();
        let expected = Duration::from_secs(seconds);
        assert_eq!((config.kubernetes.lease_duration, config.guard.window), (expected, expected), "{text}");
    }
    assert!(refusal(&["--guard-window", "1w"]).contains("500ms, 10s, 2m, 1h or 1d"));
}

#[test]
fn a_value_that_may_be_a_secret_is_not_printed() {
    let token = "eyJhbGciOiJSUzI1NiJ9.c0ffee";
    let error = refusal(&["--server-token-file", token]);
    assert!(error.contains("the path of a file") && !error.contains("c0ffee"), "{error}");
    let file = TemporaryFile::new("[server]\ntoken-file = [\"c0ffee\"]\n");
    let error = invoke(&["--config", file.0.to_str().unwrap()], &[]).unwrap_err().to_string();
    assert!(error.contains(":2: server.token-file has a value of type array; write the path of a file"), "{error}");
    assert!(!error.contains("c0ffee"), "{error}");
}

#[test]
fn printed_settings_are_read_back_unchanged() {
    let flags = [
        "--server-address",
        "http://s:1",
        "--cluster-name",
        "blue",
        "--cluster-region",
        "eu-west-1",
        "--log-filter",
        "debug",
    ];
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
fn what_nodes_need_to_join_can_be_set() {
    assert_eq!(with(&[]).unwrap().facts, FactsConfig::default());
    let flags = [
        "--cluster-api-endpoint",
        "https://api:6443",
        "--cluster-api-ca-file",
        "ca",
        "--cluster-service-cidr",
        "fd00::/108",
    ];
    let expected = FactsConfig {
        api_endpoint: Some("https://api:6443".into()),
        api_ca_file: Some("ca".into()),
        service_cidr: Some("fd00::/108".into()),
    };
    assert_eq!(with(&flags).unwrap().facts, expected);
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
        &invoke(&["--agent-probe-address", "127.0.0.1:7460"], &[("FLEETWRIGHT_AGENT_CONFIG", path)]).unwrap().layers,
    )
    .unwrap();
    assert_eq!(config.guard, GuardConfig { removals: 5, window: Duration::from_secs(60) });
    assert_eq!((config.karpenter_absent, config.probe_address), (true, Some("127.0.0.1:7460".parse().unwrap())));
    assert!(refusal(&["--guard-removals", "many"]).contains("a whole number"));
    assert!(refusal(&["--agent-probe-address", "7460"]).contains("an address and a port"));
}
