//! Plans as comments and drawings. The catalogue has one type, `box`, with 4 CPUs and 16 GiB for 0.20
//! an hour; expectations are worked out by hand.

use std::collections::BTreeMap;

use manifests::Source;
use model::MicroUsd;
use model::plan::PlanReport;
use planning_input::Options;
use repack::RepackSummary;
use xmlparser::{ElementEnd, Token, Tokenizer};

use super::table::{self, Detail};
use super::{Rendering, document, markdown, svg};

const CATALOGUE: &str = r#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue",
 "regions":[{"name":"lab","zones":["lab-a"],"priceDate":"2026-03-04"}],"types":[
  {"name":"box","labels":{"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"},"overhead":{},
   "capacity":{"cpu":"4","memory":"16Gi","pods":"110"},
   "offerings":[{"zone":"lab-a","capacityType":"on-demand","priceUsdPerHour":0.2}]}]}"#;

const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: lab.dev, kind: LabClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
---
";

/// A Deployment in the namespace `shop`, of pods with one CPU and 2 GiB and further fields in `spec`.
fn deployment(name: &str, replicas: usize, spec: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{replicas: {replicas}, \
         selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: \
         {{containers: [{{name: a, resources: {{requests: {{cpu: 1, memory: 2Gi}}}}}}]{spec}}}}}}}\n---\n"
    )
}

const NODE: &str = "
apiVersion: v1
kind: Node
metadata:
  name: n-1
  labels:
    node.kubernetes.io/instance-type: box
    topology.kubernetes.io/zone: lab-a
    karpenter.sh/capacity-type: on-demand
status: {allocatable: {cpu: 4, memory: 16Gi, pods: 110}}
---
";

/// Plans `text`, with `repack` as `--repack` does, and renders it.
fn rendered(text: &str, repacks: bool, write: impl FnOnce(&Rendering<'_>, &mut Vec<u8>)) -> String {
    rendered_with(CATALOGUE, text, repacks, write)
}

fn rendered_with(
    catalogue: &str,
    text: &str,
    repacks: bool,
    write: impl FnOnce(&Rendering<'_>, &mut Vec<u8>),
) -> String {
    let catalogue = Some(Source { name: "catalogue.json".into(), bytes: catalogue.into() });
    let options = Options { catalogue, repack: repacks, search_steps: 100_000, ..Options::default() };
    let source = Source { name: "in.yaml".into(), bytes: (POOL.to_owned() + text).into_bytes() };
    let captured = planning_input::read(&[source], &options).expect("valid manifests");
    let price_date = captured.price_date.clone();
    let (input, decision, summary): (_, _, Option<RepackSummary>) = if repacks {
        let repacking = repack::repack(&captured.input, &captured.running).expect("a valid plan");
        (repacking.input, repacking.decision, Some(repacking.summary))
    } else {
        let decision = planner::plan(&captured.input).expect("a valid plan");
        (captured.input, decision, None)
    };
    let rendering = Rendering {
        input: &input,
        plan: &decision.plan,
        report: &decision.report,
        price_date: price_date.as_deref(),
        notes: &["a note on `x` by @admin".to_owned()],
        comparison: None,
        repacking: summary.as_ref(),
    };
    let mut out = Vec::new();
    write(&rendering, &mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn markdown_of(text: &str, repacks: bool, max_usd: Option<i64>) -> String {
    rendered(text, repacks, |rendering, out| {
        markdown::write(rendering, max_usd.map(MicroUsd), out).expect("a vector accepts all");
    })
}

fn svg_of(text: &str, repacks: bool) -> String {
    rendered(text, repacks, |rendering, out| svg::write(rendering, out).expect("a vector accepts all"))
}

/// One element: its name, attributes, and the text in it.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

/// The elements of `xml` in the order of their beginnings. Panics unless it is well-formed.
fn elements(xml: &str) -> Vec<Element> {
    let (mut elements, mut open): (Vec<Element>, Vec<usize>) = (Vec::new(), Vec::new());
    for token in Tokenizer::from(xml) {
        match token.unwrap_or_else(|error| panic!("{error} in {xml}")) {
            Token::ElementStart { local, .. } => {
                assert_eq!(open.is_empty(), elements.is_empty(), "two roots");
                open.push(elements.len());
                elements.push(Element { name: local.to_string(), ..Element::default() });
            }
            Token::Attribute { prefix, local, value, .. } => {
                let name = if prefix.is_empty() { local.to_string() } else { format!("{prefix}:{local}") };
                let element = elements.last_mut().expect("an attribute is in an element");
                assert_eq!(element.attributes.insert(name, value.to_string()), None, "an attribute is written twice");
            }
            Token::ElementEnd { end: ElementEnd::Empty, .. } => drop(open.pop()),
            Token::ElementEnd { end: ElementEnd::Close(_, local), .. } => {
                let started = open.pop().expect("an element is open");
                assert_eq!(elements[started].name, local.as_str());
            }
            Token::Text { text } => {
                if let Some(at) = open.last() {
                    elements[*at].text.push_str(&text);
                }
            }
            Token::ElementEnd { end: ElementEnd::Open, .. } => {}
            other => panic!("a drawing has no {other:?}"),
        }
    }
    assert!(open.is_empty(), "unclosed elements");
    elements
}

#[test]
fn a_comment_has_cost_limit_nodes_by_type_and_pods_without_a_place() {
    // Nine pods with one CPU on nodes with four CPUs need three nodes: 0.60, and 438 in 730 hours.
    let text = deployment("web", 9, "") + &deployment("gpu", 1, ", nodeSelector: {disk: fast}");
    let comment = markdown_of(&text, false, Some(500_000));
    let (head, tail) = comment.split_once("#### Pods without a place").expect("a pod has no place");
    assert_eq!(
        head,
        "### Fleetwright plan: $0.60 an hour (about $438 a month)\n\n\
         **The new nodes exceed the limit** of $0.50 an hour (`--max-usd`) by $0.10.\n\n\
         10 pods planned: 9 on 3 nodes to launch, 0 on nodes that exist; 1 pod has NO PLACE.\n\n\
         #### Nodes to launch\n\n\
         | Type | Nodes | Pool | Capacity | Zones | $/hour each | $/hour | Pods | Of |\n\
         |---|--:|---|---|---|--:|--:|--:|---|\n\
         | `box` | 3 | `default` | `on-demand` | `lab-a` | 0.20 | 0.60 | 9 | `shop/web ×9` |\n\n"
    );
    assert!(
        tail.starts_with("\n\n- `shop/gpu-0`\n  - pool default\\: Requirements\\: wants disk In \\[fast\\]"),
        "{tail}"
    );
    let notes = "<details><summary>Notes (1)</summary>\n\n- a note on \\`x\\` by \\@&#8203;admin\n\n</details>\n";
    assert!(tail.ends_with(notes), "{tail}");
    let within = markdown_of(&text, false, Some(600_000));
    assert!(within.contains("are within the limit of $0.60 an hour (`--max-usd`): $0.00 are left."), "{within}");
    assert!(!markdown_of(&text, false, None).contains("--max-usd"));
}

#[test]
fn tables_show_the_chosen_zone_and_wide_ones_the_others_beside_it() {
    const OFFERING: &str = r#"{"zone":"lab-a","capacityType":"on-demand","priceUsdPerHour":0.2}"#;
    let both = format!("{OFFERING},{}", OFFERING.replace("lab-a", "lab-b"));
    let catalogue = CATALOGUE.replace(OFFERING, &both).replace(r#"["lab-a"]"#, r#"["lab-a","lab-b"]"#);
    let shown = |detail: Detail| {
        rendered_with(&catalogue, &deployment("web", 1, ""), false, |rendering, out| {
            table::write(rendering, detail, out).expect("a vector accepts all");
        })
    };
    // Both zones cost the same, and the launch may use either.
    let (summary, wide) = (shown(Detail::Summary), shown(Detail::Wide));
    assert!(summary.contains("lab-a") && !summary.contains("lab-b"), "{summary}");
    assert!(wide.contains("lab-a (or lab-b)"), "{wide}");
}

#[test]
fn a_plan_has_the_date_of_its_prices_where_something_is_bought() {
    // Nine CPUs of four at 0.20 cost 0.45 at least.
    let text = deployment("web", 9, "");
    let table = |text: &str| {
        rendered(text, false, |rendering, out| {
            table::write(rendering, Detail::Summary, out).expect("a vector accepts all")
        })
    };
    let cost = "COST\n  $0.60 an hour (about $438 a month); lower bound $0.45 an hour (no plan can be cheaper); prices of \
                2026-03-04\n";
    assert!(table(&text).contains(cost), "{}", table(&text));
    assert!(markdown_of(&text, false, None).contains("; prices of 2026-03-04\n"));
    let json =
        rendered(&text, false, |rendering, out| document::write_json(rendering, out).expect("a vector accepts all"));
    assert!(json.contains("\"priceDate\": \"2026-03-04\""), "{json}");
    assert!(!table("").contains("prices of"), "{}", table(""));
    let unknown = rendered(&text, false, |rendering, out| {
        let rendering = Rendering { price_date: None, ..*rendering };
        table::write(&rendering, Detail::Summary, out).expect("a vector accepts all");
    });
    assert!(unknown.contains("(no plan can be cheaper)\n"), "{unknown}");
}

#[test]
fn a_lower_bound_below_two_thirds_of_the_cost_is_left_out_of_the_table() {
    // Three nodes for 0.60, of which 0.40 are two thirds.
    let costs = |bound: i64| {
        let shown = |write: fn(&Rendering<'_>, &mut Vec<u8>)| {
            rendered(&deployment("web", 9, ""), false, |rendering, out| {
                let report = PlanReport { lower_bound: MicroUsd(bound), ..rendering.report.clone() };
                write(&Rendering { report: &report, ..*rendering }, out);
            })
        };
        let table = shown(|rendering, out| {
            table::write(rendering, Detail::Summary, out).expect("a vector accepts all");
        });
        let json = shown(|rendering, out| document::write_json(rendering, out).expect("a vector accepts all"));
        (table, json)
    };
    let (table, _) = costs(400_000);
    assert!(
        table.contains("(about $438 a month); lower bound $0.40 an hour (no plan can be cheaper); prices"),
        "{table}"
    );
    let (table, json) = costs(399_999);
    assert!(table.contains("COST\n  $0.60 an hour (about $438 a month); prices of 2026-03-04\n"), "{table}");
    assert!(json.contains("\"lowerBoundUsdPerHour\": 0.399999"), "{json}");
}

#[test]
fn a_comment_shows_hostile_text_and_interprets_none() {
    let hostile = "<img src=x>|`@admin` [x](http://evil.com) #1";
    let shown = "\\<img src=x\\>\\|\\`\\@&#8203;admin\\` \\[x\\]\\(http\\://evil\\.com\\) \\#&#8203;1";
    let comment = rendered(&deployment("web", 1, ""), false, |rendering, out| {
        let notes = [hostile.to_owned(), format!("line\n# heading {hostile}")];
        let rendering = Rendering { notes: &notes, ..*rendering };
        markdown::write(&rendering, None, out).expect("a vector accepts all");
    });
    assert!(comment.contains(&format!("- {shown}\n- line \\#&#8203; heading {shown}\n")), "{comment}");
    // The name of a scheduler may be any text. It is a part of the reason why its pod is held.
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: shop, ownerReferences: [{{kind: Job, name: a}}]}}\nspec: \
         {{nodeName: n-1, schedulerName: '{hostile}', containers: [{{name: a}}]}}\nstatus: {{phase: Running}}\n---\n"
    );
    let comment = markdown_of(&(NODE.to_owned() + &pod), true, None);
    assert!(
        comment.contains(&format!("| is placed by the scheduler {shown}, which is not planned for |")),
        "{comment}"
    );
    assert!(!comment.replace("\\<", "").contains("<img") && !comment.contains("@admin"), "{comment}");
}

#[test]
fn a_comment_on_a_repacked_cluster_names_what_holds_it() {
    let orphan = "apiVersion: v1\nkind: Pod\nmetadata: {name: debug, namespace: shop}\nspec: {nodeName: n-1, containers: \
                  [{name: a, resources: {requests: {cpu: 1}}}]}\nstatus: {phase: Running}\n---\n";
    // `n-2` is empty and is removed: 0.40 become 0.20, which the pod needs as well if it may move.
    let text = NODE.to_owned() + &NODE.replace("n-1", "n-2") + orphan;
    let comment = markdown_of(&text, true, None);
    assert!(
        comment.starts_with(
            "### Fleetwright: the cluster costs $0.40 an hour and needs $0.20\n\n\
             **You pay $0.40 an hour (about $292 a month), you need $0.20 an hour (about $146 a month); what holds nodes \
             costs nothing:**\n\n\
             #### Holds\n\n\
             | Object | Code | Nodes | $/hour of nodes | Why |\n|---|---|--:|--:|---|\n\
             | `Pod/shop/debug` | NoOwner | 1 | 0.20 | has no owner that would start it again |\n\n\
             1 node is removed, 1 node stays, and 0 of 0 pods that nothing holds move; then it costs $0.20 an hour, $0.20 less \
             than now (about $146 a month).\n"
        ),
        "{comment}"
    );
}

#[test]
fn a_drawing_is_well_formed_and_refers_to_nothing() {
    let drawing =
        svg_of(&(NODE.to_owned() + &deployment("web", 9, "") + &deployment("gpu", 1, ", nodeSelector: {a: b}")), false);
    let elements = elements(&drawing);
    assert_eq!(elements[0].name, "svg");
    for element in &elements {
        assert!(["svg", "style", "g", "title", "rect", "text", "path"].contains(&element.name.as_str()), "{element:?}");
        for (name, value) in &element.attributes {
            let refers = name.contains("href") || name.starts_with("on") || value.contains("url(");
            assert!(!refers && (name == "xmlns" || !value.contains("://")), "{name}={value}");
        }
    }
    assert!(!drawing.contains("@import") && !drawing.contains("url("), "{drawing}");
}

#[test]
fn a_drawing_shows_hostile_text_and_interprets_none() {
    // The name of a claim is a part of the reason why its pod has no place.
    let volumes = ", volumes: [{name: a, persistentVolumeClaim: {claimName: '\"><script>&'}}]";
    let drawing = svg_of(&deployment("web", 1, volumes), false);
    let texts: Vec<String> = elements(&drawing).into_iter().map(|element| element.text).collect();
    assert!(!drawing.contains("<script"), "{drawing}");
    let shown = "shop/&quot;&gt;&lt;script&gt;&amp; is not in the input";
    assert!(texts.iter().any(|text| text.contains(shown)), "{texts:?}");
}

#[test]
fn a_drawing_has_every_node_and_every_pod_once() {
    // Four of nine pods are put on `n-1`, the others on two new nodes. One pod has no place.
    let drawing =
        svg_of(&(NODE.to_owned() + &deployment("web", 9, "") + &deployment("gpu", 1, ", nodeSelector: {a: b}")), false);
    let elements = elements(&drawing);
    let values = |name: &str| elements.iter().filter_map(|element| element.attribute(name)).collect::<Vec<&str>>();
    assert_eq!(values("data-node"), ["default-1", "default-2", "n-1"]);
    let mut pods = values("data-pod");
    pods.sort_unstable();
    let web: Vec<String> = (0..9).map(|number| format!("shop/web-{number}")).collect();
    assert_eq!(pods, std::iter::once("shop/gpu-0").chain(web.iter().map(String::as_str)).collect::<Vec<&str>>());
}

/// The box is 284 pixels wide and its bars 264. A pod has one of four CPUs, 66 pixels, and two of 16
/// GiB, 33 pixels.
#[test]
fn the_length_of_a_pod_is_its_share_of_each_resource() {
    let drawing = svg_of(&deployment("web", 2, ""), false);
    let elements = elements(&drawing);
    let shapes: Vec<&str> = elements
        .iter()
        .filter(|element| element.attributes.contains_key("data-pod"))
        .map(|element| element.attribute("d").expect("a pod is a path"))
        .map(|path| path.split_once('h').expect("a rectangle").1)
        .collect();
    assert!(shapes.iter().all(|shape| shape.starts_with("66v") && shape.contains("h33v")), "{shapes:?}");
    let texts: Vec<&str> = elements.iter().map(|element| element.text.as_str()).collect();
    assert!(texts.contains(&"cpu: 2 of 4, 50 %") && texts.contains(&"memory: 4Gi of 16Gi, 25 %"), "{texts:?}");
    assert!(texts.contains(&"not requested: cpu 2, memory 12Gi"), "{texts:?}");
    assert!(texts.contains(&"shop/web-0 (cpu 1, memory 2Gi)"), "{texts:?}");
}

/// `n-2` has twice the CPUs of `n-1` and as much memory. A pod has one of eight CPUs and two of 16 GiB of the longest bars,
/// 33 pixels each, on both.
#[test]
fn bars_of_nodes_of_different_sizes_have_one_scale() {
    let nodes = NODE.to_owned() + &NODE.replace("n-1", "n-2").replace("cpu: 4", "cpu: 8");
    let drawing = svg_of(&(nodes + &deployment("web", 12, "")), false);
    let elements = elements(&drawing);
    let shapes = |matches: &dyn Fn(&Element) -> bool| -> Vec<String> {
        let paths = elements.iter().filter(|element| matches(element)).filter_map(|path| path.attribute("d"));
        let lengths = |path: &str| -> Vec<String> {
            path.split('h').skip(1).filter_map(|part| Some(part.split_once('v')?.0.to_owned())).collect()
        };
        paths.map(|path| lengths(path).join(" ")).collect()
    };
    let pods = shapes(&|element| element.attribute("data-pod").is_some());
    assert_eq!(pods, ["33 33"; 12]);
    // The first one of this class is in the legend.
    let whole = shapes(&|element| element.attribute("class") == Some("w"));
    assert_eq!(&whole[1..], ["132 264", "264 264"]);
}

#[test]
fn pods_without_a_place_have_their_names_beside_them_unless_they_are_many() {
    let named = |pods: usize| {
        let drawing = svg_of(&deployment("gpu", pods, ", nodeSelector: {a: b}"), false);
        let elements = elements(&drawing);
        assert_eq!(elements.iter().filter(|element| element.attribute("data-pod").is_some()).count(), pods);
        elements.iter().filter(|element| element.name == "text" && element.text.starts_with("shop/gpu-")).count()
    };
    assert_eq!((named(1), named(60), named(61)), (1, 60, 0));
}

#[test]
fn the_number_of_pods_has_a_bar_where_it_is_scarce() {
    let bars = |pods: usize| {
        let small = deployment("web", pods, "").replace("cpu: 1, memory: 2Gi", "cpu: 10m, memory: 16Mi");
        let texts: Vec<String> = elements(&svg_of(&small, false)).into_iter().map(|element| element.text).collect();
        texts.into_iter().filter(|text| text.starts_with("pods: ")).collect::<Vec<String>>()
    };
    assert_eq!(bars(110), ["pods: 110 of 110, 100 %"]);
    // Half of the pods, of which CPU and memory could carry more.
    assert_eq!(bars(55), [""; 0]);
}

#[test]
fn pods_of_daemon_sets_are_marked() {
    let daemon = deployment("agent", 1, "").replace("kind: Deployment", "kind: DaemonSet").replace("replicas: 1, ", "");
    let drawing = svg_of(&(deployment("web", 1, "") + &daemon), false);
    let texts: Vec<String> = elements(&drawing).into_iter().map(|element| element.text).collect();
    assert!(texts.contains(&"DaemonSet pods (cpu 1, memory 2Gi)".to_owned()), "{texts:?}");
    assert!(texts.contains(&"cpu: 2 of 4, 50 %".to_owned()), "{texts:?}");
}

#[test]
fn a_repacked_cluster_is_drawn_with_the_pods_that_stay() {
    let orphan = "apiVersion: v1\nkind: Pod\nmetadata: {name: debug, namespace: shop}\nspec: {nodeName: n-1, containers: \
                  [{name: a, resources: {requests: {cpu: 1}}}]}\nstatus: {phase: Running}\n---\n";
    let drawing = svg_of(&(NODE.to_owned() + &NODE.replace("n-1", "n-2") + orphan), true);
    let elements = elements(&drawing);
    let nodes = elements.iter().filter(|element| element.attributes.contains_key("data-node"));
    let nodes: Vec<(Option<&str>, Option<&str>)> =
        nodes.map(|node| (node.attribute("data-node"), node.attribute("class"))).collect();
    // `n-2` is empty and is removed.
    assert_eq!(nodes, [(Some("n-1"), Some("e")), (Some("n-2"), Some("e x"))]);
    let texts: Vec<&str> = elements.iter().map(|element| element.text.as_str()).collect();
    assert!(texts.contains(&"pods that run there: shop/debug (cpu 1)"), "{texts:?}");
    assert!(texts.contains(&"box · lab-a · exists, held"), "{texts:?}");
    assert!(texts.contains(&"box · lab-a · removed"), "{texts:?}");
    // The bars of the node that stays, and none of the other one.
    assert_eq!(texts.iter().filter(|text| text.starts_with("cpu: ")).count(), 1, "{texts:?}");
}

/// A drawing stays small: a pod is one element of less than 250 bytes.
#[test]
fn ten_thousand_pods_are_drawn_in_less_than_three_megabytes() {
    let drawing =
        svg_of(&deployment("web", 10_000, "").replace("cpu: 1, memory: 2Gi", "cpu: 50m, memory: 128Mi"), false);
    assert_eq!(drawing.matches("data-pod=").count(), 10_000);
    assert!(drawing.len() < 3_000_000, "{} bytes", drawing.len());
}
