use super::*;

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn with_environment(pairs: &[(&str, &str)]) -> Result<Layers, ConfigError> {
    let mut layers = Layers::default();
    layers.add_environment(variables(pairs))?;
    Ok(layers)
}

fn with_file(text: &str) -> Result<Layers, ConfigError> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("fleetwright-config-{}-{number}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let mut layers = Layers::default();
    let added = layers.add_file(&path);
    std::fs::remove_file(&path).unwrap();
    added.map(|()| layers)
}

#[test]
fn every_default_and_every_example_is_valid() {
    assert!(Config::resolve(&Layers::default()).is_ok());
    for key in KEYS {
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
    let mut layers = with_file("[cloud]\nseed = 1\nboot = \"5s\"\n[log]\nformat = \"json\"\n").unwrap();
    layers.add_environment(variables(&[("FLEETWRIGHT_CLOUD_SEED", "2")])).unwrap();
    layers.add_environment(variables(&[("FLEETWRIGHT_LOG_FORMAT", "text")])).unwrap();
    layers.add_flag(KEYS.iter().find(|key| key.path == "cloud.seed").unwrap(), "3".to_owned());
    let config = Config::resolve(&layers).unwrap();
    assert_eq!((config.cloud.seed, config.cloud.boot, config.log_json), (3, Duration::from_secs(5), false));
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest_one() {
    let message = with_file("[listen]\ngprc = \"127.0.0.1:1\"\n").unwrap_err().to_string();
    assert!(message.ends_with("there is no key \"listen.gprc\"; did you mean \"listen.grpc\"?"), "{message}");
    let message = with_environment(&[("FLEETWRIGHT_LISTEN_GRCP", "x")]).unwrap_err().to_string();
    assert!(message.contains("did you mean \"FLEETWRIGHT_LISTEN_GRPC\"?"), "{message}");
}

#[test]
fn a_key_under_its_old_name_is_an_error_that_names_the_new_one() {
    let message = with_file("[rails]\nmode = \"shadow\"\n").unwrap_err().to_string();
    assert!(message.ends_with("no key \"rails.mode\" any more; its name is \"guardrails.mode\" now"), "{message}");
    let message = with_environment(&[("FLEETWRIGHT_RAILS_BRAKE_PERCENT", "10")]).unwrap_err().to_string();
    let new = "its name is \"FLEETWRIGHT_GUARDRAILS_CIRCUIT_BREAKER_PERCENT\" now";
    assert!(message.ends_with(new), "{message}");
    let flags = ["trust-file", "control-collect-after", "control-open-together", "control-hold-after-foreign-scale-up"];
    for old in flags {
        assert!(key_of_flag(old).is_some(), "{old}");
    }
    assert!(key_of_flag("rails").is_none() && key_of_flag("cloud-seed").is_none());
}

#[test]
fn an_invalid_value_is_an_error_with_key_value_and_valid_values() {
    let message = with_file("[cloud]\nseed = \"many\"\n").unwrap_err().to_string();
    assert!(message.contains("cloud.seed = \"\\\"many\\\"\" is not a whole number from 0"), "{message}");
    let layers = with_environment(&[("FLEETWRIGHT_CLOUD_BOOT", "soon")]).unwrap();
    let message = Config::resolve(&layers).unwrap_err().to_string();
    assert_eq!(
        message,
        "environment variable FLEETWRIGHT_CLOUD_BOOT: cloud.boot = \"soon\" is not a duration such as 500ms, 10s, 2m or 1h"
    );
}

#[test]
fn subnets_are_pairs_and_each_zone_has_one() {
    let subnets = |text: &str| {
        let layers = with_environment(&[("FLEETWRIGHT_CLOUD_SUBNETS", text)]).unwrap();
        Config::resolve(&layers).map(|config| config.cloud.subnets.into_iter().collect::<Vec<_>>())
    };
    let pair = |zone: &str, subnet: &str| (zone.to_owned(), subnet.to_owned());
    assert_eq!(subnets("").unwrap(), []);
    assert_eq!(subnets("z-b=s-2, z-a=s-1").unwrap(), [pair("z-a", "s-1"), pair("z-b", "s-2")]);
    for wrong in ["z-a", "z-a=", "=s-1", "z-a=s-1,", "z-a=s-1,z-a=s-2"] {
        let message = subnets(wrong).unwrap_err().to_string();
        assert!(message.ends_with("is not pairs such as a=b,c=d, each name once"), "{message}");
    }
}

#[test]
fn secrets_are_never_printed() {
    let layers = with_environment(&[("DATABASE_URL", "postgres://user:hunter2@host/db")]).unwrap();
    assert_eq!(
        Config::resolve(&layers).unwrap().store.database_url.as_deref(),
        Some("postgres://user:hunter2@host/db")
    );
    let printed = print(&layers);
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(printed.contains("database-url = \"(hidden)\" # environment variable DATABASE_URL"), "{printed}");
}

#[test]
fn the_printed_configuration_is_a_valid_file() {
    let printed = print(&Layers::default());
    let again = with_file(&printed).unwrap();
    assert_eq!(again.get("listen.grpc").0, "127.0.0.1:7450");
    assert!(matches!(again.get("listen.grpc").1, Origin::File(_)));
}

#[test]
fn every_key_is_explained() {
    assert!(explain("config.cloud.boot").unwrap().contains("DEFAULT:     3s"));
    assert_eq!(explain("config.cloud").unwrap().matches("\nconfig.cloud.").count(), 12);
    assert_eq!(explain("config.nothing"), None);
    assert_eq!(explain("configuration"), None);
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
fn a_trial_ignores_the_database_and_cloud_of_the_environment() {
    let mut layers = Layers::default();
    let pairs = [
        ("DATABASE_URL", "postgres://a/b"),
        ("FLEETWRIGHT_CLOUD_PROVIDER", "ec2"),
        ("FLEETWRIGHT_LISTEN_GRPC", "0.0.0.0:1"),
    ];
    layers.add_environment(variables(&pairs)).unwrap();
    layers.add_trial();
    let config = Config::resolve(&layers).unwrap();
    assert!(config.store.memory && config.store.database_url.is_none());
    assert_eq!(config.cloud.provider, Provider::Simulated);
    assert!(config.listen.grpc.ip().is_loopback());
}
