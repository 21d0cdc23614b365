use super::*;

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn with_environment(pairs: &[(&str, &str)]) -> Layers {
    let mut layers = Layers::default();
    layers.add_environment(variables(pairs));
    layers
}

fn refusal(layers: &Layers) -> String {
    Config::resolve(layers).unwrap_err().to_string()
}

fn with_file(text: &str) -> Layers {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("fleetwright-config-{}-{number}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let mut layers = Layers::default();
    layers.add_file(&path);
    std::fs::remove_file(&path).unwrap();
    layers
}

#[test]
fn every_default_and_every_example_is_valid() {
    assert!(Config::resolve(&Layers::default()).is_ok());
    // The file of accounts is read at once, and that of the example does not exist.
    for key in KEYS.iter().filter(|key| key.path != "cloud.accounts-file") {
        let mut layers = Layers::default();
        // A non-loopback address requires these.
        for guard in
            KEYS.iter().filter(|key| ["listen.tls-certificate", "listen.tls-key", "auth.file"].contains(&key.path))
        {
            layers.add_flag(guard, guard.example.to_owned());
        }
        layers.add_flag(key, key.example.to_owned());
        assert!(Config::resolve(&layers).is_ok(), "{}", key.path);
        assert_eq!(key.flag, key.path.replace('.', "-"), "{}", key.path);
    }
}

#[test]
fn the_environment_overrides_the_file_and_a_flag_both() {
    let mut layers = with_file("[control]\nplan-pods = 1\nbatch-max = \"5s\"\n[log]\nformat = \"json\"\n");
    layers.add_environment(variables(&[("FLEETWRIGHT_CONTROL_PLAN_PODS", "2")]));
    layers.add_environment(variables(&[("FLEETWRIGHT_LOG_FORMAT", "text")]));
    layers.add_flag(KEYS.iter().find(|key| key.path == "control.plan-pods").unwrap(), "3".to_owned());
    let config = Config::resolve(&layers).unwrap();
    let control = &config.control;
    assert_eq!((control.plan_pods, control.batch_max, config.log_json), (3, Duration::from_secs(5), false));
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest_one() {
    let message = refusal(&with_file("[listen]\ngprc = \"127.0.0.1:1\"\n"));
    assert!(message.ends_with("there is no key \"listen.gprc\"; did you mean \"listen.grpc\"?"), "{message}");
    let message = refusal(&with_environment(&[("FLEETWRIGHT_LISTEN_GRCP", "x")]));
    assert!(message.contains("did you mean \"FLEETWRIGHT_LISTEN_GRPC\"?"), "{message}");
}

#[test]
fn a_key_under_its_old_name_is_an_error_that_names_the_new_one() {
    let message = refusal(&with_file("[rails]\nmode = \"shadow\"\n"));
    assert!(message.ends_with("no key \"rails.mode\" any more; its name is \"guardrails.mode\" now"), "{message}");
    let message = refusal(&with_environment(&[("FLEETWRIGHT_RAILS_BRAKE_PERCENT", "10")]));
    let new = "its name is \"FLEETWRIGHT_GUARDRAILS_CIRCUIT_BREAKER_PERCENT\" now";
    assert!(message.ends_with(new), "{message}");
    let flags = ["trust-file", "control-collect-after", "control-open-together", "control-hold-after-foreign-scale-up"];
    for old in flags {
        assert!(key_of_flag(old).is_some(), "{old}");
    }
    assert!(key_of_flag("rails").is_none() && key_of_flag("cloud-region").is_none());
}

#[test]
fn an_invalid_value_is_an_error_with_key_value_and_valid_values() {
    let message = refusal(&with_file("[store]\nconnections = \"many\"\n"));
    assert!(
        message.ends_with(
            ".toml:2: store.connections has a value of type string; write a whole number from 0, as in `connections = 20`"
        ),
        "{message}"
    );
    let layers = with_environment(&[("FLEETWRIGHT_SHUTDOWN_GRACE", "soon")]);
    assert_eq!(
        refusal(&layers),
        "environment variable FLEETWRIGHT_SHUTDOWN_GRACE: shutdown.grace is \"soon\"; write a duration such as 500ms, 10s, 2m, 1h or 1d"
    );
}

#[test]
fn dollars_in_a_file_are_numbers_of_at_most_six_decimals() {
    let least = |text: &str| {
        let layers = with_file(&format!("[disruption]\nmin-savings-usd-per-hour = {text}\n"));
        Config::resolve(&layers).map(|config| config.consolidation.min_savings.0)
    };
    let read = ["0", "1", "0.05", "1.0", "2.000001"].map(|text| least(text).unwrap());
    assert_eq!(read, [0, 1_000_000, 50_000, 1_000_000, 2_000_001]);
    for text in ["-1", "0.0000001", "nan", "inf", "1e300", "\"0.05\""] {
        assert!(least(text).is_err(), "{text}");
    }
}

#[test]
fn secrets_are_never_printed() {
    let layers = with_environment(&[("DATABASE_URL", "postgres://user:hunter2@host/db")]);
    assert_eq!(
        Config::resolve(&layers).unwrap().store.database_url.as_deref(),
        Some("postgres://user:hunter2@host/db")
    );
    let printed = print(&layers);
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(printed.contains("database-url = \"(hidden)\" # environment variable DATABASE_URL"), "{printed}");
}

#[test]
fn refreshes_are_off_at_zero() {
    let hours = |count: u64| Some(Duration::from_secs(count * 3_600));
    let refresh = |text: &str| Config::resolve(&with_file(text)).unwrap().cloud.refresh;
    let five_minutes = Some(Duration::from_secs(300));
    let by_default = refresh("");
    let all = [by_default.instance_types, by_default.on_demand_prices, by_default.spot_prices];
    assert_eq!(all, [hours(24), hours(12), five_minutes]);
    assert_eq!(by_default.shortest(), five_minutes);
    let without_spot = refresh("[cloud]\nspot-price-refresh-interval = \"0s\"\n");
    assert_eq!((without_spot.spot_prices, without_spot.shortest()), (None, hours(12)));
    let off = "[cloud]\nspot-price-refresh-interval = \"0s\"\non-demand-price-refresh-interval = \"0s\"\n\
               instance-type-refresh-interval = \"0s\"\n";
    assert_eq!(refresh(off).shortest(), None);
}

#[test]
fn the_printed_configuration_is_a_valid_file() {
    let printed = print(&Layers::default());
    let again = with_file(&printed);
    assert_eq!(again.get("listen.grpc").0, "127.0.0.1:7450");
    assert!(matches!(again.get("listen.grpc").1, Origin::File { line: 2, .. }));
}

#[test]
fn every_key_is_explained() {
    assert!(explain("config.control.batch-idle").unwrap().contains("DEFAULT:     1s"));
    assert_eq!(explain("config.cloud").unwrap().matches("\nconfig.cloud.").count(), 9);
    assert_eq!(explain("config.nothing"), None);
    assert_eq!(explain("configuration"), None);
}

/// The configuration with `settings` and a file of accounts, or what is wrong.
fn with_accounts(settings: &str, accounts: &str) -> Result<Config, String> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("fleetwright-accounts-{}-{number}.toml", std::process::id()));
    std::fs::write(&path, accounts).unwrap();
    let name = path.display().to_string();
    let layers = with_file(&format!("[cloud]\naccounts-file = \"{name}\"\n{settings}"));
    let resolved = Config::resolve(&layers).map_err(|errors| errors.to_string().replace(&name, "FILE"));
    std::fs::remove_file(&path).unwrap();
    resolved
}

const ONE_ACCOUNT: &str = "[[account]]\nname = \"1\"\nregion = \"eu-west-1\"\nclusters = [\"a\"]\n";

#[test]
fn a_file_of_accounts_excludes_the_settings_of_a_single_account() {
    let resolved = with_accounts("", ONE_ACCOUNT).unwrap();
    assert_eq!(resolved.cloud.accounts.unwrap().entries()[0].region, "eu-west-1");
    // Values of the defaults set nothing, so that a printed configuration can be used.
    assert!(with_accounts("account = \"default\"\n", ONE_ACCOUNT).is_ok());
    let all = "account = \"2\"\nregion = \"eu-west-1\"\napi-limit-percent = 50\n[interruption]\nqueue = \"q\"\n";
    assert_eq!(
        with_accounts(all, ONE_ACCOUNT).unwrap_err(),
        "configuration: cloud.accounts-file is set, and so are cloud.account, cloud.region, cloud.api-limit-percent, \
         interruption.queue; remove these, and write their values into the [[account]] entries of the file"
    );
}

#[test]
fn errors_of_the_file_of_accounts_are_errors_of_the_configuration() {
    let error = with_accounts("", "[[account]]\nname = \"1\"\n").unwrap_err();
    assert_eq!(error, "accounts file FILE:1: missing field `region`");
}

#[test]
fn replicas_compare_the_text_of_the_file_of_accounts() {
    let digest = |accounts: &str| {
        let resolved = with_accounts("", accounts).unwrap();
        resolved.shared.get("cloud.accounts-file").cloned()
    };
    assert_eq!(digest(ONE_ACCOUNT), digest(ONE_ACCOUNT), "the path is another one");
    assert_ne!(digest(ONE_ACCOUNT), digest(&ONE_ACCOUNT.replace("\"a\"", "\"b\"")));
}

#[test]
fn the_default_data_folder_of_a_user_is_in_the_state_folder() {
    let folder = |pairs: &[(&str, &str)]| {
        let mut layers = Layers::default();
        layers.use_state_folder_of_user(&variables(pairs));
        layers.text("store.data-dir")
    };
    assert_eq!(folder(&[("HOME", "/home/me")]), "/home/me/.local/state/fleetwright");
    assert_eq!(folder(&[("HOME", "/home/me"), ("XDG_STATE_HOME", "/state")]), "/state/fleetwright");
    // The XDG base directories have relative paths ignored.
    assert_eq!(folder(&[("XDG_STATE_HOME", "state")]), "/var/lib/fleetwright");
}

#[test]
fn a_trial_ignores_the_database_and_listeners_of_the_environment() {
    let mut layers = Layers::default();
    let pairs = [("DATABASE_URL", "postgres://a/b"), ("FLEETWRIGHT_LISTEN_GRPC", "0.0.0.0:1")];
    layers.add_environment(variables(&pairs));
    layers.add_trial();
    let config = Config::resolve(&layers).unwrap();
    assert!(config.store.memory && config.store.database_url.is_none());
    assert!(config.listen.grpc.ip().is_loopback());
}

#[test]
fn all_errors_of_a_file_and_the_environment_are_returned_in_one_run() {
    let mut layers = with_file(
        "[guardrails]\nquarantine-percent = 150\n[store]\nmemory = \"yes\"\nkeep = \"14d\"\nkeep-log = \"two weeks\"\n\
         [log]\nfilter = \"verbose\"\n[control]\nmin-values-policy = \"None\"\n",
    );
    layers.add_environment(variables(&[("FLEETWRIGHT_COLOUR", "red")]));
    let errors = Config::resolve(&layers).unwrap_err().messages();
    // Errors of names and types come in the order of the lines, then those of values in the order of the keys.
    let expected = [
        ":4: store.memory has a value of type string; write true or false, as in `memory = true`",
        ":5: there is no key \"store.keep\"; did you mean \"store.keep-log\"?",
        "environment variable FLEETWRIGHT_COLOUR: there is no key \"FLEETWRIGHT_COLOUR\"; `fleetwright explain config` lists every key",
        ":6: store.keep-log is \"two weeks\"; write a duration such as 500ms, 10s, 2m, 1h or 1d",
        ":10: control.min-values-policy is \"None\"; write Strict or BestEffort",
        ":2: guardrails.quarantine-percent is \"150\"; write a percentage from 0 to 100, without a sign",
        ":8: log.filter is \"verbose\"; write a level (off, error, warn, info, debug, trace) or module=level, such as info,fleetwright=debug",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn a_file_that_is_no_toml_is_an_error_with_the_line_and_without_its_text() {
    let message = refusal(&with_file("[store]\ndatabase-url = \"postgres://a:c0ffee@b/c\n"));
    assert!(message.contains(".toml: line 2: not valid TOML: "), "{message}");
    assert!(!message.contains("c0ffee"), "{message}");
    let mut layers = Layers::default();
    layers.add_file(std::path::Path::new("/nonexistent/server.toml"));
    assert!(refusal(&layers).starts_with("configuration file /nonexistent/server.toml: No such file"));
}

#[test]
fn variables_that_kubernetes_makes_for_services_are_ignored() {
    // The Services fleetwright, fleetwright-canary and fleetwright-server.
    let of_services = with_environment(&[
        ("FLEETWRIGHT_SERVICE_HOST", "10.0.0.1"),
        ("FLEETWRIGHT_SERVICE_PORT", "7450"),
        ("FLEETWRIGHT_SERVICE_PORT_GRPC", "7450"),
        ("FLEETWRIGHT_PORT", "tcp://10.0.0.1:7450"),
        ("FLEETWRIGHT_PORT_7450_TCP", "tcp://10.0.0.1:7450"),
        ("FLEETWRIGHT_PORT_7450_TCP_PROTO", "tcp"),
        ("FLEETWRIGHT_PORT_7450_TCP_PORT", "7450"),
        ("FLEETWRIGHT_PORT_7450_TCP_ADDR", "10.0.0.1"),
        ("FLEETWRIGHT_CANARY_SERVICE_HOST", "10.0.0.2"),
        ("FLEETWRIGHT_SERVER_PORT", "tcp://10.0.0.3:80"),
    ]);
    assert!(Config::resolve(&of_services).is_ok(), "{}", refusal(&of_services));
    assert!(Config::resolve(&with_environment(&[("FLEETWRIGHT_PORT", "7450")])).is_err());
}

#[test]
fn a_database_of_another_kind_is_refused_without_its_password() {
    let message = refusal(&with_environment(&[("DATABASE_URL", "mysql://root:hunter2@db/x")]));
    assert_eq!(
        message,
        "environment variable DATABASE_URL: store.database-url is \"(hidden)\"; write a PostgreSQL URL such as \
         postgres://user@host:5432/database"
    );
}

#[test]
fn the_help_of_a_flag_has_key_variable_and_default() {
    let help = |path: &str| keys::find(path).unwrap().flag_help();
    let facts = " [key: control.batch-idle] [env: FLEETWRIGHT_CONTROL_BATCH_IDLE] [default: 1s]";
    assert!(help("control.batch-idle").ends_with(facts), "{}", help("control.batch-idle"));
    assert!(help("auth.file").ends_with("[key: auth.file] [env: FLEETWRIGHT_AUTH_FILE]"), "{}", help("auth.file"));
}

#[test]
fn the_list_of_keys_has_types_and_defaults() {
    let control = explain("config.control").unwrap();
    assert!(control.contains("config.control.min-values-policy <Strict|BestEffort> [default: Strict]\n"), "{control}");
    assert!(control.contains("config.control.batch-idle <duration> [default: 1s]\n"), "{control}");
}
