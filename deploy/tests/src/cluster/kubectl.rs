//! Calls of `kubectl`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::kustomize;
use crate::objects::Objects;

/// `kubectl` with the cluster of `KUBECONFIG`.
#[derive(Debug, Clone, Copy)]
pub struct Kubectl;

impl Kubectl {
    /// The command, for those who want more than its output.
    pub fn command(self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs it to its end, however it ends.
    ///
    /// # Errors
    /// When there is no kubectl.
    pub fn output(self, args: &[&str]) -> Result<Output> {
        self.command(args).output().context("cannot run kubectl")
    }

    /// Runs it and returns its output.
    ///
    /// # Errors
    /// When it fails, with its output.
    pub fn run(self, args: &[&str]) -> Result<String> {
        let output = self.output(args)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {args:?}: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs it with `-o json` and returns the object.
    ///
    /// # Errors
    /// When it fails, or prints something else.
    pub fn json(self, args: &[&str]) -> Result<Value> {
        let mut all = args.to_vec();
        all.extend(["-o", "json"]);
        Ok(serde_json::from_str(&self.run(&all)?)?)
    }

    /// `kubectl apply` or `kubectl delete` of objects.
    ///
    /// # Errors
    /// When it fails, with its output.
    pub fn with_objects(self, args: &[&str], objects: &Objects) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects.0});
        let mut command = self.command(args);
        command.args(["-f", "-"]).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(list.to_string().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {args:?}: {errors}");
        Ok(())
    }
}

impl Objects {
    /// A folder of `deploy/` as it is now, with other images: pairs of a name in the manifests and what stands for it.
    ///
    /// # Errors
    /// When kustomize fails.
    pub fn rendered(folder: &str, images: &[(&str, String)]) -> Result<Self> {
        Ok(Self::parse(&kustomize::render(folder)?)?.with_images(images))
    }

    /// The same objects with other images.
    pub fn with_images(mut self, images: &[(&str, String)]) -> Self {
        for object in &mut self.0 {
            replace_images(object, images);
        }
        self
    }
}

fn replace_images(value: &mut Value, images: &[(&str, String)]) {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace_images(item, images)),
        Value::Object(fields) => {
            for (key, field) in fields {
                let other = images.iter().find(|(name, _)| *field == **name);
                match other {
                    Some((_, image)) if key == "image" => *field = image.as_str().into(),
                    _ => replace_images(field, images),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_of_that_name_are_replaced() {
        let pod = json!({"metadata": {"name": "tetris-node"}, "spec": {"containers": [
            {"name": "tetris-node", "image": "tetris-node"}, {"image": "other"}]}});
        let mut changed = pod.clone();
        replace_images(
            &mut changed,
            &[("tetris-node", "here/tetris-node:1".to_owned())],
        );
        let mut expected = pod;
        expected["spec"]["containers"][0]["image"] = "here/tetris-node:1".into();
        assert_eq!(changed, expected);
    }
}
