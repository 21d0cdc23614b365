use super::*;
use server_settings::{KEYS, Layers};

const SIMULATED: Provider = Provider::Simulated { shared: false };

/// Result of the check for a cloud with these settings.
fn check_message(provider: Provider, settings: &[(&str, &str)]) -> String {
    let mut layers = Layers::default();
    for (path, value) in settings {
        layers.add_flag(KEYS.iter().find(|key| key.path == *path).unwrap(), (*value).to_owned());
    }
    let cloud = CloudConfig { provider, ..Config::resolve(&layers).unwrap().cloud };
    check(&cloud).map_or_else(|error| error.to_string(), |()| "nothing".to_owned())
}

#[test]
fn the_simulated_cloud_needs_nothing() {
    assert_eq!(check_message(SIMULATED, &[]), "nothing");
}

#[test]
fn a_region_without_zones_is_refused_unless_ec2_may_have_it() {
    let message = |provider, region| check_message(provider, &[("cloud.region", region)]);
    let refused = "cloud.region is \"useast1\"; the catalogue has no zones of this region; did you mean us-east-1?";
    assert_eq!(message(SIMULATED, "useast1"), refused);
    assert_eq!(message(SIMULATED, "eu-west-1"), "nothing");
    if cfg!(feature = "ec2") {
        assert_eq!(message(Provider::Ec2, "useast1"), refused);
        for region in ["eu-west-1", "eu-west-9", "us-gov-east-1"] {
            assert_eq!(message(Provider::Ec2, region), "nothing", "{region}");
        }
        for region in ["us-east", "us-east-1a", "US-EAST-1", "us--east-1", "east-1"] {
            assert!(message(Provider::Ec2, region).starts_with("cloud.region is"), "{region}");
        }
    }
}

#[test]
fn a_build_without_ec2_names_the_one_with_it() {
    let message = check_message(Provider::Ec2, &[]);
    if cfg!(feature = "ec2") {
        assert_eq!(message, "nothing");
    } else {
        assert!(message.contains("build it with the cargo feature `ec2`"), "{message}");
    }
}

#[test]
fn an_option_that_needs_ec2_names_the_build_with_it() {
    let message =
        simulated_account::check("--cloud ec2").map_or_else(|error| error.to_string(), |()| "nothing".to_owned());
    if cfg!(feature = "ec2") {
        assert_eq!(message, "nothing");
    } else {
        assert_eq!(message, "--cloud ec2: this program was built without EC2; build it with the cargo feature `ec2`");
    }
}

#[cfg(feature = "ec2")]
#[test]
fn a_region_of_the_file_of_accounts_without_zones_is_refused() {
    let path = std::env::temp_dir().join(format!("fleetwright-regions-{}.toml", std::process::id()));
    let message = |region: &str| {
        let entry = format!("[[account]]\nname = \"1\"\nregion = \"{region}\"\nclusters = [\"a\"]\n");
        std::fs::write(&path, entry).unwrap();
        check_message(Provider::Ec2, &[("cloud.accounts-file", path.to_str().unwrap())])
    };
    assert_eq!(message("eu-west-1"), "nothing");
    let refused = message("useast1");
    std::fs::remove_file(&path).unwrap();
    let expected = "the region of an [[account]] is \"useast1\"; the catalogue has no zones of this region; did you mean us-east-1?";
    assert!(refused.starts_with(&format!("in {}, ", path.display())) && refused.ends_with(expected), "{refused}");
}

#[test]
fn a_queue_is_refused_for_the_simulated_cloud() {
    let message = |provider| check_message(provider, &[("interruption.queue", "fleet")]);
    assert!(message(SIMULATED).starts_with("interruption.queue is set, and only EC2 has a queue"));
    assert!(!message(Provider::Ec2).contains("interruption.queue"));
}

#[test]
fn a_file_of_accounts_is_refused_for_the_simulated_cloud() {
    let path = std::env::temp_dir().join(format!("fleetwright-simulated-{}.toml", std::process::id()));
    std::fs::write(&path, "[[account]]\nname = \"1\"\nregion = \"eu-west-1\"\nclusters = [\"a\"]\n").unwrap();
    let refused = check_message(SIMULATED, &[("cloud.accounts-file", path.to_str().unwrap())]);
    std::fs::remove_file(&path).unwrap();
    assert!(refused.starts_with("cloud.accounts-file is set, and only EC2 has accounts"), "{refused}");
}
