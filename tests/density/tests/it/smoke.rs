//! The whole program with tiny models: all methods agree, all outputs are written, no file remains.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use tetris_density::synthetic;

use crate::common;

fn quick(workdir: &Path, more: &[&str]) -> Value {
    let json = workdir.join("report.json");
    let html = workdir.join("report.html");
    let mut arguments = vec!["--quick", "--ksm-limit", "5"];
    arguments.extend([
        "--json",
        json.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    arguments.extend(more);
    let output = common::density(workdir, &arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{stderr}", output.status);
    serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap()
}

#[test]
fn quick_run_measures_every_method_on_every_workload() {
    let workdir = tempfile::tempdir().unwrap();
    let report = quick(workdir.path(), &[]);
    assert_eq!(report["schema"], "tetris-density/2");
    for key in [
        "command",
        "machine",
        "seed",
        "bars",
        "papers",
        "notes",
        "duration_s",
        "store_place",
    ] {
        assert!(!report[key].is_null(), "{key}");
    }
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<&str> = workloads
        .iter()
        .map(|workload| workload["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["replicas", "heads", "lora", "unrelated", "mixed"]);
    for workload in workloads {
        assert_eq!(workload["checksums_agree"], true);
        assert!(workload["inference"].as_array().unwrap().len() == 4);
        for method in workload["methods"].as_array().unwrap() {
            check_method(method);
        }
        for entry in workload["density"]["methods"].as_array().unwrap() {
            note_if_skipped("density", entry);
            assert!(entry["outcome"] != "failed", "{entry}");
        }
    }
}

fn check_method(method: &Value) {
    if note_if_skipped("group", method) {
        let needs_root = ["ksm", "tetris-brokered"];
        assert!(
            needs_root.contains(&method["method"].as_str().unwrap()),
            "{method}"
        );
        return;
    }
    check_measured(method);
}

fn check_measured(method: &Value) {
    assert_eq!(method["outcome"], "measured", "{method}");
    let group = method["group"].as_array().unwrap();
    assert_eq!(group.len(), 2);
    for point in group {
        for key in ["group_bytes", "logical_bytes"] {
            assert!(point[key].as_u64().unwrap() > 0, "{key}: {point}");
        }
        assert!(point["processes"]["page_tables"].as_u64().unwrap() > 0);
        assert!(point["available_drop_bytes"].is_i64());
    }
    for start in method["starts"].as_array().unwrap() {
        for key in ["attach_ns", "touch_ns", "first_result_ns"] {
            assert!(start[key].as_u64().unwrap() > 0, "{key}: {start}");
        }
        assert_eq!(start["checksum"].as_str().unwrap().len(), 16);
    }
}

fn note_if_skipped(what: &str, entry: &Value) -> bool {
    let skipped = entry["outcome"] == "skipped";
    if skipped {
        common::skipped(&format!("{what} {}: {}", entry["method"], entry["reason"]));
    }
    skipped
}

#[test]
fn store_recognizes_files_as_its_methods_promise() {
    let workdir = tempfile::tempdir().unwrap();
    let more = [
        "--workload",
        "replicas",
        "--budget",
        "off",
        "--instances",
        "1,2,3",
    ];
    let report = quick(workdir.path(), &more);
    let methods = report["workloads"][0]["methods"].as_array().unwrap();
    let identities = |name: &str| -> Vec<String> {
        let method = methods
            .iter()
            .find(|method| method["method"] == name)
            .unwrap();
        let starts = method["starts"].as_array().unwrap();
        starts
            .iter()
            .map(|start| start["store"]["identities"][0].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(identities("tetris"), ["hashing", "stat", "stat"]);
    assert_eq!(
        identities("tetris-sidecar"),
        ["sidecar", "sidecar", "sidecar"]
    );
    assert_eq!(
        identities("tetris-own-file"),
        ["hashing", "hashing", "hashing"]
    );
    let with_daemon = report["machine"]["root"] == true;
    if with_daemon {
        let brokered = ["brokered", "brokered", "brokered"];
        assert_eq!(identities("tetris-brokered"), brokered);
    }
    for method in methods
        .iter()
        .filter(|method| method["method"].as_str().unwrap().starts_with("tetris"))
        .filter(|method| with_daemon || method["method"] != "tetris-brokered")
    {
        let starts = method["starts"].as_array().unwrap();
        let published = starts[0]["store"]["published_bytes"].as_u64().unwrap();
        // The daemon publishes for the workers.
        assert_eq!(published == 0, method["method"] == "tetris-brokered");
        assert_eq!(starts[1]["store"]["published_bytes"], 0, "{method}");
        assert_eq!(starts[1]["store"]["private_bytes"], 0, "{method}");
    }
}

#[test]
fn html_report_has_its_plots_and_needs_no_other_file() {
    let workdir = tempfile::tempdir().unwrap();
    quick(workdir.path(), &["--workload", "replicas,heads"]);
    let page = std::fs::read_to_string(workdir.path().join("report.html")).unwrap();
    let density = page.matches("Density under a limit").count();
    assert_eq!(page.matches("<svg").count(), 4 + density);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for foreign in [
        "http://", "https://", "src=", "<script", "@import", "url(", "<link",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    for part in [
        "prefers-color-scheme: dark",
        "How to read it",
        "page cache, one file",
        "instances",
        "time to first result",
        "--quick",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn python_processes_agree_and_are_skipped_without_pytorch() {
    let workdir = tempfile::tempdir().unwrap();
    let methods = "torch-safetensors,torch-safetensors-own-file,torch,torch-own-file,torch-cast,torch-derived";
    let more = [
        "--workload",
        "replicas",
        "--budget",
        "off",
        "--methods",
        methods,
    ];
    let python = std::env::var("TETRIS_DENSITY_PYTHON").unwrap_or_else(|_| "python3".into());
    for (interpreter, must_skip) in [(python.as_str(), false), ("/nonexistent/python", true)] {
        let mut arguments = more.to_vec();
        arguments.extend(["--python", interpreter]);
        let report = quick(workdir.path(), &arguments);
        let workload = &report["workloads"][0];
        assert_eq!(workload["checksums_agree"], true);
        for method in workload["methods"].as_array().unwrap() {
            if must_skip {
                assert_eq!(method["outcome"], "skipped", "{method}");
                let reason = method["reason"].as_str().unwrap();
                assert!(reason.contains(interpreter), "{reason}");
            } else if !note_if_skipped("group", method) {
                check_measured(method);
                assert!(method["interpreter_bytes"].as_u64().unwrap() > 0);
            }
        }
    }
}

#[test]
fn nothing_is_left_behind() {
    let workdir = tempfile::tempdir().unwrap();
    let model = common::tiny_file(workdir.path());
    let before = std::fs::read(&model).unwrap();
    let output = common::density(
        workdir.path(),
        &[
            "--model",
            model.to_str().unwrap(),
            "--instances",
            "1,2",
            "--passes",
            "2",
            "--budget-cap",
            "2",
            "--format",
            "json",
        ],
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["workloads"][0]["name"], "replicas");
    // The bars and the paper's figures are for the project's own models.
    for own in ["bars", "papers"] {
        assert_eq!(report[own].as_array().map(Vec::len), Some(0), "{own}");
    }
    let left: Vec<_> = std::fs::read_dir(workdir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(left, std::slice::from_ref(&model));
    assert_eq!(std::fs::read(&model).unwrap(), before);
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(workdir.path().to_str().unwrap()));
}

#[test]
fn wrong_options_are_refused_with_the_usage_code() {
    let workdir = tempfile::tempdir().unwrap();
    let model = common::tiny_file(workdir.path());
    let model = model.to_str().unwrap();
    for arguments in [
        &["--instances", "4,2"][..],
        &["--instances", "0,2"],
        &["--model", model, "--workload", "heads"],
        &["--scale", "0.5"],
        &["--budget", "lots"],
        &["--methods", "magic"],
        &["--model", model, model],
        &["--base", model],
        &["--base", model, "--variants", model],
        &["--base", model, "--variants", "b", "--workload", "mixed"],
        &["--quick", "--json", "report", "--html", "report"],
    ] {
        let output = common::density(workdir.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    let output = common::density(
        workdir.path(),
        &["--model", "/nonexistent/model.safetensors"],
    );
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("/nonexistent/model.safetensors"),
        "{stderr}"
    );
}

#[test]
fn outputs_are_opened_before_the_run_and_kept_if_it_fails() {
    let workdir = tempfile::tempdir().unwrap();
    let nowhere = workdir.path().join("missing").join("report.html");
    for option in ["--html", "--json"] {
        let arguments = ["--quick", option, nowhere.to_str().unwrap()];
        let output = common::density(workdir.path(), &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(nowhere.to_str().unwrap()), "{stderr}");
        // Nothing was measured.
        assert!(
            !stderr.contains("replicas") && output.stdout.is_empty(),
            "{stderr}"
        );
    }
    let earlier = workdir.path().join("report.json");
    std::fs::write(&earlier, "earlier results").unwrap();
    let model = ["--model", "/nonexistent/model.safetensors"];
    let arguments = [&model[..], &["--json", earlier.to_str().unwrap()]].concat();
    let output = common::density(workdir.path(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        std::fs::read_to_string(&earlier).unwrap(),
        "earlier results"
    );
}

#[test]
fn a_count_that_ends_with_the_copies_says_so() {
    let workdir = tempfile::tempdir().unwrap();
    let methods = "private,own-file,tetris,tetris-own-file";
    // Two copies of the files, and a limit with room for four instances.
    let more = [
        "--workload",
        "replicas",
        "--methods",
        methods,
        "--budget",
        "1G",
    ];
    let report = quick(workdir.path(), &more);
    for entry in report["workloads"][0]["density"]["methods"]
        .as_array()
        .unwrap()
    {
        if note_if_skipped("density", entry) {
            continue;
        }
        let copies = entry["method"].as_str().unwrap().ends_with("own-file");
        let (event, fits) = if copies { ("copies", 2) } else { ("cap", 4) };
        assert_eq!(entry["ended_by"]["event"], event, "{entry}");
        assert_eq!(entry["fits"], fits, "{entry}");
        assert_eq!(entry["at_least"], true, "{entry}");
        let page = std::fs::read_to_string(workdir.path().join("report.html")).unwrap();
        assert!(page.contains("no more copies of the files"), "{entry}");
    }
}

#[test]
fn a_family_says_what_its_variants_share_with_the_base() {
    let workdir = tempfile::tempdir().unwrap();
    let base = common::tiny();
    let variant = base.retrained("variant", |name| name.contains("layer.0"));
    let [base_path, variant_path] = [&base, &variant].map(|model| {
        let path = workdir.path().join(format!("{}.safetensors", model.name));
        synthetic::write(model, 7, &path).unwrap();
        path
    });
    let output = common::density(
        workdir.path(),
        &[
            "--base",
            base_path.to_str().unwrap(),
            "--variants",
            variant_path.to_str().unwrap(),
            "--methods",
            "private,tetris",
            "--instances",
            "1,2,4",
            "--budget",
            "off",
            "--format",
            "json",
        ],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let family = &report["workloads"][0];
    assert_eq!(family["name"], "family");
    assert_eq!(family["patterns"], serde_json::json!([[0], [1]]));
    let distinct = synthetic::distinct_bytes([&base, &variant]);
    assert_eq!(family["distinct_bytes"], distinct);
    let part = &family["sharing"][0];
    assert_eq!(part["variant"], "variant.safetensors");
    let own_bytes = part["tensor_bytes"].as_u64().unwrap() - part["shared_bytes"].as_u64().unwrap();
    assert!(
        own_bytes > 0 && own_bytes == distinct - base.bytes(),
        "{part}"
    );
    // The second instance, the first with the variant, publishes only that part.
    let methods = family["methods"].as_array().unwrap();
    let tetris = methods
        .iter()
        .find(|entry| entry["method"] == "tetris")
        .unwrap();
    let published = &tetris["starts"][1]["store"]["published_bytes"];
    assert!(
        published.as_u64().unwrap() < base.bytes() / 2 + own_bytes,
        "{published}"
    );
}

#[test]
fn replicas_of_several_models_are_a_group_each() {
    let workdir = tempfile::tempdir().unwrap();
    let first = common::tiny_file(workdir.path());
    let other = workdir.path().join("other.safetensors");
    synthetic::write(&common::tiny(), 8, &other).unwrap();
    let (one, other) = (first.to_str().unwrap(), other.to_str().unwrap());
    let output = common::density(
        workdir.path(),
        &[
            "--model",
            one,
            other,
            "--workload",
            "replicas",
            "--methods",
            "private,tetris",
            "--instances",
            "1,2",
            "--budget",
            "off",
            "--format",
            "json",
        ],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let groups = report["workloads"].as_array().unwrap();
    let names: Vec<_> = groups.iter().map(|group| &group["name"]).collect();
    assert_eq!(
        names,
        [
            "replicas of tiny.safetensors",
            "replicas of other.safetensors"
        ]
    );
    // The announced number of steps is the true one.
    let mut steps = stderr.lines().filter(|line| line.starts_with('['));
    assert!(steps.next_back().unwrap().starts_with("[8/8] "), "{stderr}");
}

#[test]
fn the_terminal_gets_a_legend_and_narrow_tables() {
    let workdir = tempfile::tempdir().unwrap();
    let arguments = [
        "--quick",
        "--workload",
        "replicas",
        "--ksm-limit",
        "5",
        "--instances",
    ];
    let sizes = "1,2,3,4,5,6";
    let output = common::density(workdir.path(), &[&arguments[..], &[sizes]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "Methods:",
        "  own-file: ",
        "  files, new, seen: ",
        "6 inst.",
        "ended by",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn help_says_how_long_a_run_takes() {
    let workdir = tempfile::tempdir().unwrap();
    let output = common::density(workdir.path(), &["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("Duration:"), "{help}");
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn an_interrupt_cleans_up_and_has_its_own_code() {
    let workdir = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(common::PROGRAM)
        .args(["--quick", "--workdir", workdir.path().to_str().unwrap()])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // The first method is running once its step is announced.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("replicas: private")));
    let pid = child.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert_eq!(std::fs::read_dir(workdir.path()).unwrap().count(), 0);
}
