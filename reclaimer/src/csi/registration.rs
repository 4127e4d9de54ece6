//! Registration of the driver: the kubelet finds the socket, asks for the plugin, and reports the
//! result.
//!
//! The kubelet (`pkg/kubelet/pluginmanager`) watches its registry for sockets whose names do not
//! begin with a dot, also in folders. It gives [`Registration::get_info`] a second, then checks
//! name, endpoint and versions, asks the endpoint for `NodeGetInfo`, and writes the CSINode object.
//! A failure from then on is reported once and not tried again until the socket is another one; so the
//! service ends, and must be started again. A new socket under the old name is a new driver to the
//! kubelet, and so is every one that it finds when it starts itself.

use tokio::sync::{mpsc, watch};
use tonic::{Request, Response, Status};

use super::config::CsiConfig;
use super::wire::registration_server::Registration;
use super::wire::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

/// The kubelet's name for drivers of this interface.
const KIND: &str = "CSIPlugin";
/// The version of the interface. The kubelet takes 1.x, written with three numbers.
const VERSION: &str = "1.0.0";

/// The answers to the kubelet.
#[derive(Debug)]
pub(super) struct Registrar {
    info: PluginInfo,
    refusals: mpsc::Sender<String>,
    registered: watch::Sender<bool>,
}

impl Registrar {
    /// `refusals` gets the kubelet's message when it does not register the driver, `registered` is
    /// true once it did.
    pub fn new(
        config: &CsiConfig,
        refusals: mpsc::Sender<String>,
        registered: watch::Sender<bool>,
    ) -> Self {
        let info = PluginInfo {
            r#type: KIND.to_owned(),
            name: config.driver.clone(),
            endpoint: config.socket().to_string_lossy().into_owned(),
            supported_versions: vec![VERSION.to_owned()],
        };
        Self {
            info,
            refusals,
            registered,
        }
    }
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn get_info(
        &self,
        _request: Request<InfoRequest>,
    ) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if status.plugin_registered {
            tracing::info!(driver = self.info.name, "registered with the kubelet");
            self.registered.send_replace(true);
        } else {
            // A second refusal adds nothing: the service is about to end.
            let _told_already = self.refusals.try_send(status.error);
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
