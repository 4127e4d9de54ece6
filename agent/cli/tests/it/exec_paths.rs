//! `exec`: what the command finds in its arguments and in its environment.

use std::path::Path;

use crate::site::{Background, Site, eventually, run};

#[test]
fn a_whole_file_is_read_from_the_store_under_its_own_name() {
    let site = Site::new();
    let file = site.file("weights.gguf", 3);
    let mut command = site.command(&["exec", "--model"]);
    let shell = "echo $0; readlink -f $0; cmp $0 $1 && echo same; read line";
    command
        .arg(&file)
        .args(["--", "sh", "-c", shell, "{}"])
        .arg(&file);
    let mut command = Background::start(&mut command);
    let path = command.line();
    assert!(
        path.ends_with("/weights.gguf") && path != file.to_str().unwrap(),
        "{path}"
    );
    let objects = site.store_dir().canonicalize().unwrap().join("objects-v1");
    assert!(Path::new(&command.line()).starts_with(objects));
    assert_eq!(command.line(), "same");
    site.json_when(&["stat"], |stat| stat["referenced_objects"] == 1);
    command.finish();
    let dir = Path::new(&path).ancestors().nth(2).unwrap();
    eventually("the link is removed", || !dir.exists());
    assert!(file.exists());
}

#[test]
fn models_are_numbered_and_tensors_stay_where_they_are() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let first = site.file("w.gguf", 3);
    std::fs::create_dir(site.dir().join("other")).unwrap();
    let second = site.file("other/w.gguf", 4);
    let mut command = site.command(&["exec"]);
    for model in [&model, &first, &second] {
        command.arg("--model").arg(model);
    }
    let shell = "printf '%s\\n' \"$@\"; cmp $3 $6 && cmp $4 $7 && echo same";
    command.args([
        "--",
        "sh",
        "-c",
        shell,
        "sh",
        "{}",
        "--path={1}",
        "{2}",
        "{3}",
        "{4}",
    ]);
    let text = run(command.args([&first, &second])).expect(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    let model = model.to_str().unwrap();
    assert_eq!(lines[0], model);
    assert_eq!(lines[1], format!("--path={model}"));
    assert!(
        lines[2].ends_with("/w.gguf") && lines[3].ends_with("/w.gguf"),
        "{text}"
    );
    assert_ne!(lines[2], lines[3]);
    assert_eq!(lines[4], "{4}");
    assert_eq!(lines[7], "same");
}

#[test]
fn safetensors_files_can_be_kept_whole() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let mut command = site.command(&["exec", "--whole-file", "--model"]);
    command
        .arg(&model)
        .args(["--", "sh", "-c", "echo $0; cmp $0 $1", "{}"]);
    let text = run(command.arg(&model)).expect(0).stdout;
    assert!(text.trim_end().ends_with("/m.safetensors"), "{text}");
    assert_ne!(text.trim_end(), model.to_str().unwrap());
}

#[test]
fn braces_stay_when_they_are_meant() {
    let site = Site::new();
    let file = site.file("w.gguf", 3);
    let mut command = site.command(&["exec", "--no-substitute", "--model"]);
    let run = run(command.arg(&file).args(["--", "echo", "{}", "{1}"])).expect(0);
    assert_eq!(run.stdout, "{} {1}\n");
}

#[test]
fn the_command_finds_the_store_in_its_environment() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let mut command = crate::site::tetris();
    // Named relative to a directory that the command may leave.
    command
        .current_dir(site.store_dir())
        .args(["--store", ".", "exec", "-m"]);
    command
        .arg(&model)
        .args(["--", "sh", "-c", "echo $TETRIS_STORE"]);
    let text = run(&mut command).expect(0).stdout;
    let dir = Path::new(text.trim_end());
    assert!(dir.is_absolute(), "{text}");
    assert_eq!(
        dir.canonicalize().unwrap(),
        site.store_dir().canonicalize().unwrap()
    );
}
