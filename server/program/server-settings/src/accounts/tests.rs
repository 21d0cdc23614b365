use super::*;

const PATH: &str = "/etc/fleetwright/accounts.toml";

fn parse(text: &str) -> Result<Accounts, AccountsError> {
    let path = Path::new(PATH);
    Accounts::parse(path, text.to_owned()).map_err(|problems| AccountsError { path: path.to_owned(), problems })
}

/// The errors of a file, without its path.
fn errors(text: &str) -> Vec<String> {
    let messages = parse(text).unwrap_err().messages();
    messages.into_iter().map(|text| text.trim_start_matches(&format!("accounts file {PATH}:")).to_owned()).collect()
}

const TWO: &str = r#"
[[account]]
name = "111111111111"
region = "eu-west-1"
clusters = ["prod-*", "staging"]
role-arn = "arn:aws:iam::111111111111:role/fleetwright"
cluster-role-arn = "arn:aws:iam::111111111111:role/path/fleetwright-{cluster}"
external-id = "x"
interruption-queue = "fleetwright"
api-limit-percent = 50

[[account]]
name = "222222222222"
region = "us-east-1"
clusters = ["prod-us-*", "prod-eu", "prod"]
endpoint = "http://127.0.0.1:1"
"#;

#[test]
fn an_entry_has_the_values_of_its_fields_and_defaults() {
    let accounts = parse(TWO).unwrap();
    let [first, second] = accounts.entries() else { panic!("two entries") };
    assert_eq!((first.account.as_str(), first.region.as_str()), ("111111111111", "eu-west-1"));
    let roles = AccountRoles {
        account: Some("arn:aws:iam::111111111111:role/fleetwright".to_owned()),
        cluster: Some("arn:aws:iam::111111111111:role/path/fleetwright-{cluster}".to_owned()),
        external_id: Some("x".to_owned()),
    };
    assert_eq!(first.roles, roles);
    assert_eq!((first.interruption_queue.as_deref(), first.api_limit_percent), (Some("fleetwright"), 50));
    assert_eq!((&second.roles, second.api_limit_percent), (&AccountRoles::default(), 100));
    assert_eq!((second.interruption_queue.as_deref(), second.endpoint.as_deref()), (None, Some("http://127.0.0.1:1")));
}

#[test]
fn a_name_goes_before_a_prefix_and_a_long_prefix_before_a_short_one() {
    let accounts = parse(TWO).unwrap();
    let entry = |cluster: &str| accounts.rules().entry_of(cluster).ok();
    for (cluster, expected) in [
        ("staging", Some(0)),
        ("staging-2", None),
        ("prod-1", Some(0)),
        ("prod-us", Some(0)),
        ("prod-us-1", Some(1)),
        ("prod-us-", Some(1)),
        ("prod-eu", Some(1)),
        ("prod-eu-1", Some(0)),
        ("prod", Some(1)),
        ("pro", None),
        ("Staging", None),
        ("", None),
    ] {
        assert_eq!(entry(cluster), expected, "{cluster}");
    }
}

#[test]
fn a_star_alone_takes_what_no_other_pattern_names() {
    let text = TWO.replace("\"prod\"]", "\"prod\", \"*\"]");
    let accounts = parse(&text).unwrap();
    assert_eq!(
        ["dev", "prod-1", "staging"].map(|cluster| accounts.rules().entry_of(cluster).ok()),
        [Some(1), Some(0), Some(0)]
    );
}

#[test]
fn a_cluster_without_an_entry_is_told_the_file_and_what_to_add() {
    let refused = parse(TWO).unwrap().rules().entry_of("dev-eu-1").unwrap_err().to_string();
    assert_eq!(
        refused,
        "no [[account]] in /etc/fleetwright/accounts.toml names cluster dev-eu-1, so no account and region is known to \
         launch its machines in; add \"dev-eu-1\", or a prefix such as \"dev-eu-*\", to the clusters of its [[account]] and \
         restart the server"
    );
}

#[test]
fn a_pattern_in_two_entries_is_an_error_of_the_second() {
    let text = TWO.replace("\"prod-us-*\"", "\"prod-*\", \"staging\"");
    let expected = |pattern: &str| {
        format!(
            "12: [[account]] 2 (222222222222, us-east-1): clusters: {pattern:?} is in [[account]] 1 (111111111111, \
             eu-west-1) already; each name and prefix belongs to one entry"
        )
    };
    assert_eq!(errors(&text), ["prod-*", "staging"].map(expected));
}

#[test]
fn all_errors_of_a_file_are_returned_with_entry_field_and_remedy() {
    let text = r#"[[account]]
name = "111111111111"
region = "EU West"
clusters = []
role-arn = "fleetwright"
cluster-role-arn = "arn:aws:iam::333333333333:role/x-{cluster}"
api-limit-percent = 0
[[account]]
name = "a/b"
region = "us-east-1"
clusters = ["a*b", "*"]
external-id = "x"
interruption-queue = ""
endpoint = "127.0.0.1"
[[account]]
name = "111111111111"
region = "EU West"
clusters = ["c"]
role-arn = "arn:aws:iam::111111111111:role/x-{cluster}"
cluster-role-arn = "arn:aws:iam::111111111111:role/x-{region}-{cluster}"
"#;
    let of = |line: usize, title: &str, all: &[&str]| -> Vec<String> {
        all.iter().map(|error| format!("{line}: [[account]] {title}: {error}")).collect()
    };
    let first = of(
        1,
        "1 (111111111111, EU West)",
        &[
            "region: write the name of a region, as in \"eu-west-1\"",
            "clusters: write at least one cluster, as in [\"prod-*\", \"staging\"]",
            "role-arn: \"fleetwright\" is no ARN of a role; write arn:aws:iam::111111111111:role/fleetwright-account",
            "cluster-role-arn: the role is in account 333333333333, and this entry is of account 111111111111",
            "api-limit-percent: write a whole number from 1; without calls nothing can be launched",
        ],
    );
    let second = of(
        8,
        "2 (a/b, us-east-1)",
        &[
            "name: write the number of the account, as in \"123456789012\"",
            "external-id: it is sent with a role only; add role-arn, or remove it",
            "interruption-queue: write the name of the queue, or remove the field",
            "endpoint: write a URL such as http://127.0.0.1:7461",
            "clusters: \"a*b\" is neither the name of a cluster (letters, digits, '-', '_' and '.') nor such a prefix with one \
             '*' at its end",
        ],
    );
    let third = of(
        15,
        "3 (111111111111, EU West)",
        &[
            "region: write the name of a region, as in \"eu-west-1\"",
            "role-arn: \"arn:aws:iam::111111111111:role/x-{cluster}\" has another placeholder; only cluster-role-arn has \
             placeholders",
            "cluster-role-arn: \"arn:aws:iam::111111111111:role/x-{region}-{cluster}\" has another placeholder; {cluster} is \
             the only placeholder",
            "[[account]] 1 (111111111111, EU West) is the same account and region; write the clusters of both into one entry",
        ],
    );
    assert_eq!(errors(text), [first, second, third].concat());
}

#[test]
fn no_name_of_a_cluster_makes_its_role_that_of_the_account() {
    let with_roles = |account: &str, cluster: &str| {
        let arn = |field: &str, name: &str| format!("{field} = \"arn:aws:iam::111111111111:role/{name}\"\n");
        let text = "[[account]]\nname = \"111111111111\"\nregion = \"eu-west-1\"\nclusters = [\"*\"]\n";
        format!("{text}{}{}", arn("role-arn", account), arn("cluster-role-arn", cluster))
    };
    assert_eq!(
        errors(&with_roles("fleetwright-account", "fleetwright-{cluster}")),
        [
            "1: [[account]] 1 (111111111111, eu-west-1): cluster-role-arn: a cluster named \"account\" would have the role of \
          the account; begin the roles of clusters with a prefix of their own, such as role/fleetwright-cluster-{cluster}"
        ]
    );
    for (account, cluster) in [
        ("fleetwright-account", "fleetwright-cluster-{cluster}"),
        ("fleetwright", "fleetwright-{cluster}"),
        ("fleetwright-", "fleetwright-{cluster}"),
        // One role for all, whose sessions have the clusters' names as tags.
        ("fleetwright-account", "fleetwright-account"),
    ] {
        assert!(parse(&with_roles(account, cluster)).is_ok(), "{account} {cluster}");
    }
}

#[test]
fn unknown_fields_other_types_and_an_empty_file_are_refused_with_the_line() {
    let unknown = errors("[[account]]\nname = \"1\"\nregion = \"r\"\nclusters = [\"a\"]\nrole = \"x\"\n");
    assert!(
        unknown[0].starts_with("5: unknown field `role`, expected one of `name`, `region`, `clusters`"),
        "{unknown:?}"
    );
    let table = errors("[[accounts]]\nname = \"1\"\n");
    assert!(table[0].starts_with("1: unknown field `accounts`, expected `account`"), "{table:?}");
    let missing = errors("\n[[account]]\nname = \"1\"\nregion = \"r\"\n");
    assert_eq!(missing, ["2: missing field `clusters`"]);
    let no_list = errors("[[account]]\nname = \"1\"\nregion = \"r\"\nclusters = \"a\"\n");
    assert!(no_list[0].starts_with("4: invalid type: string"), "{no_list:?}");
    assert!(errors("# nothing\n")[0].starts_with("1: it has no [[account]], so every cluster would be refused"));
    let path = Path::new("/nonexistent/accounts.toml");
    let missing = Accounts::read(path).unwrap_err().to_string();
    assert!(missing.starts_with("accounts file /nonexistent/accounts.toml: No such file"), "{missing}");
}

#[test]
fn without_a_file_all_clusters_belong_to_one_account() {
    assert_eq!(ClusterRules::all_in_one().entry_of("any"), Ok(0));
}

#[test]
fn the_example_of_the_documentation_is_valid() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/accounts.toml");
    let accounts = Accounts::read(&example).unwrap();
    assert_eq!(accounts.rules().entry_of("prod-1"), Ok(0));
}
