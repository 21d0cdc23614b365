//! `fleetwright plan`: output, exit status and flags, as users see them.

use std::fs;
use std::path::Path;

use e2e::{Program, TempDir};
use serde_json::{Value, json};

use crate::{PROGRAM, TIMEOUT, fleetwright};

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {cluster: a}}]
  securityGroupSelectorTerms: [{tags: {cluster: a}}]
";

fn pod(name: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n    - name: main\n      image: x\n      \
         resources: {{requests: {{cpu: {cpu:?}}}}}\n"
    )
}

fn pool_without_burstable_types() -> String {
    let category = "- {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}";
    POOL.replace("requirements:\n", &format!("requirements:\n        {category}\n"))
}

fn plan_json(folder: &TempDir) -> (i32, Value) {
    let folder = folder.path().display().to_string();
    let ended = fleetwright(&["plan", "-f", &folder, "-o", "json", "--region", "us-east-1"]);
    let plan =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {}{}", ended.stdout, ended.stderr));
    (ended.status, plan)
}

#[test]
fn readme_shows_what_its_first_plan_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the project");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (_, rest) = readme.split_once("fleetwright plan --region us-east-1 -f - <<'END'\n").expect("a plan");
    let (input, rest) = rest.split_once("END\n```\n\n```\n").expect("an input, and below it what is printed");
    let (printed, _) = rest.split_once("```\n").expect("the end of what is printed");
    let ended = Program::new(PROGRAM, &["plan", "--region", "us-east-1", "-f", "-"]).input(input).run(TIMEOUT);
    // The pod without a place.
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert_eq!(ended.stdout, printed, "README.md lacks:\n{}", ended.stdout);
}

#[test]
fn with_hints_the_realised_cost_is_the_planned_one_and_without_a_search_it_is_absent() {
    let folder = TempDir::new();
    let _pool = folder.write_file("pool.yaml", POOL);
    let _pods = folder.write_file("pods.yaml", [pod("web", "1"), pod("db", "3")].join("---\n"));
    let folder = folder.path().display().to_string();
    let cost = |more: &[&str]| {
        let ended = fleetwright(&[&["plan", "-f", &folder, "-o", "json", "--region", "us-east-1"], more].concat());
        let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
        plan["cost"].clone()
    };
    assert!(cost(&["--search", "0"]).get("realisedUsdPerHour").is_none());
    let hinted = cost(&["--hints"]);
    assert_eq!(hinted["realisedUsdPerHour"], hinted["newUsdPerHour"]);
    let searched = cost(&["--search", "1", "--seed", "7"]);
    assert!(searched["realisedUsdPerHour"].as_f64() >= searched["newUsdPerHour"].as_f64());
}

#[test]
fn a_pending_pod_gets_a_node_and_the_sum_is_price_and_credits() {
    let folder = TempDir::new();
    let _pool = folder.write_file("pool.yaml", POOL);
    let _pod = folder.write_file("deep/er/pod.yml", pod("web", "1"));
    let (status, plan) = plan_json(&folder);
    assert_eq!(status, 0);
    assert_eq!((plan["apiVersion"].as_str(), plan["kind"].as_str()), (Some("fleetwright.dev/v1"), Some("Plan")));
    let nodes = plan["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0]["pods"], json!(["default/web"]));
    assert_eq!(nodes[0]["nodePool"], "default");
    assert_eq!(nodes[0]["capacityType"], "on-demand");
    // t3a.small: $0.0188, and 1 vCPU beyond a baseline of 0.4 is $0.03 of credits.
    assert_eq!((&nodes[0]["priceUsdPerHour"], &nodes[0]["creditsUsdPerHour"]), (&json!(0.0188), &json!(0.03)));
    assert_eq!(plan["cost"]["newUsdPerHour"], 0.0488);
    assert!(plan["cost"]["lowerBoundUsdPerHour"].as_f64() > Some(0.0));
    assert_eq!(plan["unschedulable"], json!([]));
}

#[test]
fn keys_are_in_the_order_of_the_contract() {
    let folder = TempDir::new();
    let _pool = folder.write_file("pool.yaml", POOL);
    let (_, plan) = plan_json(&folder);
    let keys: Vec<&str> = plan.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["apiVersion", "kind", "nodes", "staticNodes", "placements", "unschedulable", "cost", "notes"]);
}

#[test]
fn a_pod_that_fits_no_machine_ends_with_1_and_a_reason() {
    let folder = TempDir::new();
    let _pool = folder.write_file("pool.yaml", POOL);
    let _pod = folder.write_file("pod.yaml", pod("huge", "100000"));
    let (status, plan) = plan_json(&folder);
    assert_eq!(status, 1);
    assert_eq!(plan["nodes"], json!([]));
    assert_eq!(plan["unschedulable"][0]["pod"], "default/huge");
    assert_eq!(plan["unschedulable"][0]["reasons"][0]["nodePool"], "default");
    assert_eq!(plan["unschedulable"][0]["reasons"][0]["code"], "Resources");
}

#[test]
fn the_same_input_gives_the_same_bytes_in_any_order_and_from_standard_input() {
    let folder = TempDir::new();
    let pool = folder.write_file("a.yaml", POOL);
    let one = folder.write_file("b.yaml", format!("{}---\n{}", pod("one", "1"), pod("two", "2")));
    let forward = fleetwright(&["plan", "-f", &pool, "-f", &one, "-o", "json", "--region", "us-east-1"]);
    let backward = fleetwright(&["plan", "-f", &one, "-f", &pool, "-o", "json", "--region", "us-east-1"]);
    let piped = Program::new(PROGRAM, &["plan", "-f", "-", "-o", "json", "--region", "us-east-1"])
        .input(format!("{}---\n{}---\n{POOL}", pod("two", "2"), pod("one", "1")))
        .run(TIMEOUT);
    assert_eq!(forward.status, 0, "{}", forward.stderr);
    assert_eq!(forward.stdout, backward.stdout);
    assert_eq!(forward.stdout, piped.stdout);
}

#[test]
fn a_price_above_the_bound_ends_with_1_and_the_plan_is_printed_all_the_same() {
    let folder = TempDir::new();
    let pool = folder.write_file("a.yaml", POOL);
    let one = folder.write_file("b.yaml", pod("one", "1"));
    let dear = fleetwright(&["plan", "-f", &pool, "-f", &one, "--max-usd", "0.000001"]);
    assert_eq!(dear.status, 1);
    assert!(dear.stdout.contains("NODES TO LAUNCH"), "{}", dear.stdout);
    assert!(dear.stderr.contains("--max-usd"), "{}", dear.stderr);
    assert_eq!(fleetwright(&["plan", "-f", &pool, "-f", &one, "--max-usd", "1000"]).status, 0);
}

#[test]
fn timings_are_one_line_of_json_on_standard_error() {
    let folder = TempDir::new();
    let pool = folder.write_file("a.yaml", POOL);
    let ended = fleetwright(&["plan", "-f", &pool, "--timings"]);
    let line: Value = serde_json::from_str(ended.stderr.trim()).unwrap();
    for key in ["readMs", "decideMs", "decideCpuMs", "searchSteps", "peakRssMib"] {
        assert!(line[key].is_number(), "{key} in {line}");
    }
    assert!(line["peakRssMib"].as_f64() > Some(0.0));
}

#[test]
fn a_comparison_is_shown_beside_the_plan_and_changes_no_exit_status() {
    let folder = TempDir::new();
    let pool = folder.write_file("a.yaml", pool_without_burstable_types());
    // One pod of one vCPU: Karpenter too launches the cheapest type that holds it, so the prices are equal.
    let one = folder.write_file("b.yaml", pod("one", "1"));
    let arguments = ["plan", "-f", &pool, "-f", &one, "--region", "us-east-1", "--compare", "karpenter"];
    let json = fleetwright(&[&arguments[..], &["-o", "json"]].concat());
    let plan: Value = serde_json::from_str(&json.stdout).unwrap();
    let expected = json!({
        "name": "karpenter", "nodes": 1, "newUsdPerHour": plan["cost"]["newUsdPerHour"], "unschedulable": 0,
        "nodeTypes": [{
            "instanceType": plan["nodes"][0]["instanceTypes"][0], "capacityType": plan["nodes"][0]["capacityType"], "count": 1,
        }],
        "differences": [],
    });
    assert_eq!((json.status, &plan["compare"]), (0, &expected));
    assert!(plan["notes"].to_string().contains("own rendering"), "{plan:#}");
    let table = fleetwright(&arguments).stdout;
    for part in ["COMPARISON", "this plan", "karpenter ", "lower bound "] {
        assert!(table.contains(part), "{part:?} is missing in {table}");
    }
}

#[test]
fn a_comparison_with_an_unknown_name_is_refused_with_those_that_are_known() {
    let ended = fleetwright(&["plan", "-f", "-", "--compare", "other"]);
    assert_eq!(ended.status, 2);
    assert!(
        ended.stderr.contains("other") && ended.stderr.contains("[possible values: karpenter]"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    let script = "\"$0\" catalogue export | head -c 10";
    let ended = Program::new("/bin/sh", &["-c", script, PROGRAM]).env("PATH", "/usr/bin:/bin").run(TIMEOUT);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
}

#[test]
fn an_exported_catalogue_plans_what_the_built_in_one_plans() {
    let folder = TempDir::new();
    let catalogue = folder.write_file("catalogue.json", fleetwright(&["catalogue", "export"]).stdout);
    // Credits are charged for the built-in catalogue only.
    let pool = pool_without_burstable_types();
    let input = folder.write_file("input.yaml", format!("{pool}---\n{}", pod("web", "3")));
    let arguments = ["plan", "-f", &input, "-o", "json", "--region", "us-east-1"];
    let built_in = fleetwright(&arguments);
    let own = fleetwright(&[&arguments[..], &["--catalogue", &catalogue]].concat());
    let nodes = |text: &str| serde_json::from_str::<Value>(text).unwrap()["nodes"][0]["priceUsdPerHour"].clone();
    assert_eq!(nodes(&built_in.stdout), nodes(&own.stdout));
    // One region of it, through a pipe.
    let script = "\"$0\" catalogue export --region us-east-1 | \"$0\" plan -f \"$1\" -o json --catalogue -";
    let piped = Program::new("/bin/sh", &["-c", script, PROGRAM, &input]).env("PATH", "/usr/bin:/bin").run(TIMEOUT);
    assert_eq!((piped.status, nodes(&piped.stdout)), (0, nodes(&built_in.stdout)), "{}", piped.stderr);
}

#[test]
fn older_objects_are_converted_and_fields_are_explained() {
    let old = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: old}\nspec:\n  template:\n    spec:\n      \
               nodeClassRef: {name: default}\n      requirements: []\n";
    let converted = Program::new(PROGRAM, &["convert", "-f", "-"]).input(old).run(TIMEOUT);
    assert_eq!(converted.status, 0, "{}", converted.stderr);
    assert!(converted.stdout.contains("karpenter.sh/v1\n"), "{}", converted.stdout);
    // Fields that planning does not use are kept.
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, env: [{name: KEY, value: v}]}]\n";
    let converted = Program::new(PROGRAM, &["convert", "-f", "-"]).input(pod).run(TIMEOUT);
    assert!(converted.stdout.contains("KEY"), "{}", converted.stdout);
    let explained = fleetwright(&["explain", "nodepool.spec.disruption"]);
    assert_eq!(explained.status, 0);
    assert!(explained.stdout.contains("consolidateAfter"));
    assert!(fleetwright(&["explain", "config.listen.grpc"]).stdout.contains("127.0.0.1:7450"));
    assert_eq!(fleetwright(&["explain", "nodepool.spec.nothing"]).status, 2);
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 12\n  selector: \
                   {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: web, \
                   image: web, resources: {requests: {cpu: 3, memory: 2Gi}}}]\n";

#[test]
fn files_and_directories_are_read_without_a_flag() {
    let folder = TempDir::new();
    let pool = folder.write_file("pool.yaml", POOL);
    let web = folder.write_file("deep/web.yaml", WEB);
    let path = folder.path().display().to_string();
    let region = ["--region", "us-east-1", "-o", "json"];
    let flagged = fleetwright(&[&["plan", "-f", &path], &region[..]].concat());
    assert_eq!(flagged.status, 0, "{}", flagged.stderr);
    for arguments in
        [vec!["plan", &path], vec!["plan", &pool, &web], vec!["plan", "-R", &path], vec!["plan", "-f", &pool, &web]]
    {
        let ended = fleetwright(&[&arguments[..], &region[..]].concat());
        assert_eq!(ended.stdout, flagged.stdout, "{arguments:?}\n{}", ended.stderr);
    }
    let names = fleetwright(&["plan", &path, "--region", "us-east-1", "-o", "name"]).stdout;
    let plan: Value = serde_json::from_str(&flagged.stdout).unwrap();
    let nodes = plan["nodes"].as_array().unwrap();
    let expected: String = nodes.iter().map(|node| format!("node/{}\n", node["name"].as_str().unwrap())).collect();
    assert_eq!(names, expected);
    // Every pod is named in the wide table, and none in the short one.
    let wide = fleetwright(&["plan", &path, "--region", "us-east-1", "-o", "wide"]).stdout;
    let table = fleetwright(&["plan", &path, "--region", "us-east-1"]).stdout;
    for number in 0..12 {
        assert!(wide.contains(&format!("shop/web-{number}")), "{wide}");
    }
    assert!(!table.contains("shop/web-"), "{table}");
    assert!(table.contains("lower bound $") && table.contains("(no plan can be cheaper)"), "{table}");
    assert!(!table.contains('\u{1b}') && !wide.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn an_explanation_of_something_unknown_names_what_there_is() {
    let folder = TempDir::new();
    let _pool = folder.write_file("pool.yaml", POOL);
    let _web = folder.write_file("web.yaml", WEB);
    let path = folder.path().display().to_string();
    let refusal = |arguments: &[&str]| {
        let ended = fleetwright(&[&["plan", &path, "--region", "us-east-1"], arguments].concat());
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{arguments:?}");
        ended.stderr
    };
    assert!(refusal(&["--explain", "web-0"]).contains("did you mean shop/web-0?"));
    assert!(
        refusal(&["--explain", "shop/web"]).contains("write one of its pods: shop/web-0, shop/web-1, shop/web-2, ")
    );
    assert!(refusal(&["--explain-node", "defualt-1"]).contains("did you mean default-1?"));
    assert!(refusal(&["--explain", "shop/web-0", "-o", "json"]).contains("--explain prints text only"));
}

#[test]
fn validate_prints_every_error_of_every_file_and_plans_nothing() {
    let folder = TempDir::new();
    let good = folder.write_file("pool.yaml", POOL);
    let ended = fleetwright(&["validate", &good]);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "1 file checked: no errors, 3 notes\n"), "{}", ended.stderr);
    let bad = folder.write_file("bad.yaml", pod("a", "-1") + "---\n" + &pod("b", "0,5"));
    let worse = folder.write_file("worse.yaml", "apiVersion: v1\nkind: Pod\n  metadata: x\n");
    let ended = fleetwright(&["validate", &good, &bad, &worse]);
    assert_eq!((ended.status, ended.stdout.as_str()), (2, ""));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    // A pod is 8 lines, and a line divides the two: the quantities are on lines 8 and 9 + 8 = 17.
    let field = "spec.containers[0].resources.requests.cpu";
    assert!(lines[0].starts_with(&format!("{bad}:8: Pod/default/a: {field}: ")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("{bad}:17: Pod/default/b: {field}: ")), "{lines:?}");
    assert!(lines[1].ends_with("did you mean 0.5?"), "{lines:?}");
    assert!(lines[2].starts_with(&format!("{worse}:")), "{lines:?}");
    let misspelt = folder.write_file("misspelt.yaml", WEB.replace("replicas", "replica"));
    assert_eq!(fleetwright(&["validate", &misspelt]).status, 0);
    assert_eq!(fleetwright(&["validate", "--strict", &misspelt]).status, 2);
}

#[test]
fn convert_tells_that_comments_are_dropped() {
    let convert = |text: &str| Program::new(PROGRAM, &["convert", "-f", "-"]).input(text).run(TIMEOUT);
    let commented = convert(&format!("# our pool\n{POOL}"));
    assert_eq!(commented.status, 0, "{}", commented.stderr);
    assert_eq!(
        commented.stderr,
        "note: standard input has comments, which are not in the result; copy those that you need\n"
    );
    assert_eq!(convert(POOL).stderr, "");
}

#[test]
fn explain_lists_its_topics_and_answers_to_near_misses() {
    let topics = fleetwright(&["explain"]);
    assert_eq!(topics.status, 0);
    assert!(topics.stdout.contains("nodepool (") && topics.stdout.contains("\nconfig\n"), "{}", topics.stdout);
    let refusal = |path: &str| {
        let ended = fleetwright(&["explain", path]);
        assert_eq!(ended.status, 2, "{path}");
        ended.stderr
    };
    assert!(refusal("config.listen.grcp").contains("did you mean config.listen.grpc?"));
    assert!(refusal("agent").contains("fleetwright-agent --help"));
    assert!(refusal("pod").contains("kubectl explain pod"));
    let fields = fleetwright(&["explain", "nodepool.spec.disruption", "--recursive"]).stdout;
    assert!(fields.contains("\n  budgets\t<") && fields.contains("\n    nodes\t<string>\n"), "{fields}");
    assert_eq!(fleetwright(&["catalog", "regions"]).stdout, fleetwright(&["catalogue", "regions"]).stdout);
}

#[test]
fn every_commercial_region_can_be_planned_for() {
    let folder = TempDir::new();
    let _pool = folder.write_file("pool.yaml", POOL);
    let _web = folder.write_file(
        "web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 10\n  selector: {matchLabels: {app: web}}\n  \
         template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: web, image: web, resources: {requests: \
         {cpu: 500m, memory: 1Gi}}}]\n",
    );
    let path = folder.path().display().to_string();
    let snapshot = cloud::catalogue::Snapshot::builtin().unwrap();
    let commercial: Vec<_> = snapshot.regions().iter().filter(|region| !region.name.starts_with("us-gov-")).collect();
    assert_eq!(commercial.len(), 34);
    for region in commercial {
        let ended = fleetwright(&["plan", "-f", &path, "-o", "json", "--region", &region.name]);
        assert_eq!(ended.status, 0, "{}: {}", region.name, ended.stderr);
        let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
        let nodes = plan["nodes"].as_array().unwrap();
        let pods: usize = nodes.iter().map(|node| node["pods"].as_array().unwrap().len()).sum();
        assert_eq!(pods, 10, "{}", region.name);
        for node in nodes {
            let zone = node["zone"].as_str().unwrap();
            assert!(region.zones.iter().any(|known| known.as_ref() == zone), "{}: {zone}", region.name);
            assert!(node["priceUsdPerHour"].as_f64() > Some(0.0), "{}: {node}", region.name);
        }
    }
}
