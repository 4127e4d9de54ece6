//! Volumes of models, as the kubelet asks for them: a pod waits until its model is on the node.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::PoisonError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::mount::{MoveMountFlags, move_mount};
use tetris_units::size::Bytes;
use tokio::time::Instant;
use tonic::Status;

use super::choose::Chosen;
use super::domains;
use super::error::VolumeError;
use super::model_mount::{ModelMount, copy_of, is_model, is_of, new_mount};
use super::node::{CsiDriver, DriverParts, PUBLISH, PodUsers, logged};
use super::request::Publish;
use super::stores::{Given, Stores};
use super::target::TargetDirectory;
use crate::models::{ModelQuestion, ModelState, MountAnswer, MountOrder};

/// Longest wait of a call for a model. The kubelet gives a call 2 minutes, shows the error of one that ends, and waits longer
/// before each next one.
const WAIT: Duration = Duration::from_secs(90);
/// Time between two looks at a model.
const LOOK: Duration = Duration::from_millis(250);

impl CsiDriver {
    /// Gives a pod the files of a model, once the node has it.
    pub(super) async fn publish_model(&self, wish: Publish, model: String) -> Result<(), Status> {
        let users = self.users_of(&wish).await;
        let namespace_uid = users.namespace_uid.clone();
        let chosen = logged(PUBLISH, self.chosen(&wish))?;
        let (by, rule) = (wish.clone(), self.per_namespace());
        let question = self
            .blocking(move |shared| {
                let store = |stores: &Stores| match (&chosen, &rule, &namespace_uid) {
                    (Chosen::Fixed(store), ..) => stores.fixed(store),
                    (Chosen::Own(_), Some(rule), Some(uid)) => stores.own(rule, &by.namespace, uid),
                    (Chosen::Own(_), ..) => Err(no_domain("its namespace is not known now")),
                };
                logged(PUBLISH, shared.model_question(&by, &users, model, store))
            })
            .await?;
        let deadline = Instant::now() + WAIT;
        loop {
            let waiting = match self.model_state(&question).await? {
                ModelState::Present { mount } => {
                    let (wish, question) = (wish.clone(), question.clone());
                    let published = self.blocking(move |shared| {
                        logged(PUBLISH, shared.publish_model(&wish, &question, mount))
                    });
                    match published.await? {
                        None => return Ok(()),
                        Some(reason) => reason,
                    }
                }
                ModelState::Absent => {
                    "no pod of the namespace's service account keeps it here; is there a Model of this name, for this node and service account?".to_owned()
                }
                ModelState::Failed { problem } => problem,
                ModelState::Pulling {
                    done,
                    total,
                    bytes_per_second,
                } => progress(done, total, bytes_per_second),
            };
            if Instant::now() >= deadline {
                let error = VolumeError::Waiting {
                    model: question.model,
                    progress: waiting,
                };
                return logged(PUBLISH, Err(error)).map_err(Status::from);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn model_state(&self, question: &ModelQuestion) -> Result<ModelState, Status> {
        let state = self.keeper().model(question).await;
        let state = state.map_err(|problem| VolumeError::NoBroker {
            model: question.model.clone(),
            problem,
        });
        Ok(logged(PUBLISH, state)?)
    }
}

fn no_domain(because: &str) -> VolumeError {
    VolumeError::NoDomain {
        because: because.to_owned(),
    }
}

/// Text about a model under way.
fn progress(done: u64, total: u64, bytes_per_second: u64) -> String {
    if total == 0 {
        return "its files are being listed".to_owned();
    }
    let text = format!("{} of {} are there", Bytes(done), Bytes(total));
    match total.saturating_sub(done).checked_div(bytes_per_second) {
        None => text,
        Some(seconds) => format!(
            "{text}, {} per second, about {seconds} s left",
            Bytes(bytes_per_second)
        ),
    }
}

impl DriverParts {
    /// The model of the pod's domain, as the broker knows it.
    fn model_question(
        &self,
        wish: &Publish,
        users: &PodUsers,
        model: String,
        store: impl FnOnce(&Stores) -> Result<Given, VolumeError>,
    ) -> Result<ModelQuestion, VolumeError> {
        if let Some(because) = self.ids.missing_because() {
            return Err(no_domain(&because.to_string()));
        }
        if !users.are_the_hosts {
            return Err(no_domain(
                "it has users of its own, or it is not known whether it has (`hostUsers`)",
            ));
        }
        let (Some(uid), Some(account)) = (&users.namespace_uid, &wish.service_account) else {
            return Err(no_domain(
                "the daemon does not know its namespace and service account; is there a table `csi.per_namespace`?",
            ));
        };
        let identity = self.config.trust_domain.identity(uid, account);
        let identity = identity.ok_or_else(|| no_domain("`csi.trust_domain` is `off`"))?;
        let store = {
            let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            store(&self.stores)?
        };
        let domain = domains::domain_of(&store.directory, &identity);
        Ok(ModelQuestion {
            store: store.config.name,
            domain: domain.map_err(|error| no_domain(&error.to_string()))?,
            model,
        })
    }

    /// Mounts the model at the pod's target. Returns the reason that it was not possible now, if there is one.
    fn publish_model(
        &self,
        wish: &Publish,
        question: &ModelQuestion,
        mount: u64,
    ) -> Result<Option<String>, VolumeError> {
        let target = self.target(wish)?;
        if let Some((entry, _)) = target.mounted()?
            && mount != 0
            && is_of(&entry, mount)
        {
            return Ok(None);
        }
        let copy = match mount {
            0 => None,
            mount => copy_of(mount, &self.config.kubelet_dir)?,
        };
        let (tree, number) = match copy {
            Some(copy) => (copy, mount),
            None => match self.mount_model(question, &target)? {
                Ok(new) => new,
                Err(reason) => return Ok(Some(reason)),
            },
        };
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        attach(&target, &tree, number)?;
        tracing::info!(
            volume = wish.volume_id,
            namespace = wish.namespace,
            pod = wish.pod,
            pod_uid = wish.pod_uid,
            store = question.store,
            model = question.model,
            "volume published"
        );
        Ok(None)
    }

    /// Makes the file system of a model, and has the pod that keeps it answer. The inner error is a reason to wait.
    fn mount_model(
        &self,
        question: &ModelQuestion,
        target: &TargetDirectory,
    ) -> Result<Result<(OwnedFd, u64), String>, VolumeError> {
        // A pod that does not take its mounts keeps no pods of other models waiting.
        let Some(_turn) = self.mounting.take(question) else {
            return Ok(Err("another pod mounts it just now".to_owned()));
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanoseconds = since_1970.map_or(1, |time| time.as_nanos());
        let number = u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1);
        let made = new_mount(number, &self.config.python.selinux_context);
        let ModelMount { tree, device } = made.map_err(VolumeError::io(
            "make a mount of a model for",
            target.path(),
        ))?;
        let order = MountOrder {
            model: question.clone(),
            mount: number,
        };
        let answer = self.stores.keeper().mount_model(&order, device.as_fd());
        Ok(match answer {
            Ok(MountAnswer::Taken) => Ok((tree, number)),
            Ok(MountAnswer::Refused { reason }) => Err(reason),
            Err(error) => Err(error.to_string()),
        })
    }
}

/// Attaches a mount of the model with this number at a pod's target. One of before, of a pod that answers no more, goes.
fn attach(target: &TargetDirectory, tree: &OwnedFd, number: u64) -> Result<(), VolumeError> {
    target.make()?;
    if let Some((entry, root)) = target.mounted()? {
        if is_of(&entry, number) {
            return Ok(());
        }
        if !is_model(&entry) {
            return Err(VolumeError::Occupied {
                target: target.path().to_owned(),
                found: format!("a file system of type {}", entry.fs_type),
            });
        }
        target.unmount(&root)?;
    }
    let Some(dir) = target.dir()? else {
        return Err(VolumeError::Occupied {
            target: target.path().to_owned(),
            found: "another process, which removes it".to_owned(),
        });
    };
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", &dir, "", flags)
        .map_err(VolumeError::io("attach a model at", target.path()))?;
    match target.mounted()? {
        Some((entry, _)) if is_of(&entry, number) => Ok(()),
        _ => Err(VolumeError::NotReadOnly {
            target: target.path().to_owned(),
            found: "no read-only mount of the model".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::progress;

    #[test]
    fn progress_tells_bytes_rate_and_time_as_far_as_they_are_known() {
        assert_eq!(progress(0, 0, 0), "its files are being listed");
        assert_eq!(
            progress(1 << 30, 4 << 30, 0),
            "1.00 GiB of 4.00 GiB are there"
        );
        assert_eq!(
            progress(1 << 30, 4 << 30, 1 << 30),
            "1.00 GiB of 4.00 GiB are there, 1.00 GiB per second, about 3 s left"
        );
    }
}
