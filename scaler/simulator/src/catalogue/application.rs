//! The applications of the paper, as ways through functions.

use serde::Serialize;

use super::model::{DSSM, FASTSPEECH2, LSTM, Model, RESNET152, SSD, STT, TEXTCNN, USE, USE_QA};

/// The four applications of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Application {
    /// Second-hand vehicle trading: SSD finds objects, one of two Resnet152 classifies cars or
    /// motorcycles. That each gets half of the requests is assumed.
    #[serde(rename = "SVT")]
    Svt,
    /// Audio questions and answers: Stt, then Use-qa, then Fastspeech2.
    #[serde(rename = "QA-Audio")]
    QaAudio,
    /// Semantic similarity: Use.
    #[serde(rename = "SS")]
    Ss,
    /// Text questions and answers: Textcnn69, Lstm, Dssm. That they run one after the other is assumed.
    #[serde(rename = "QA-Text")]
    QaText,
}

/// A model, and what its tensors are called where it is a variant.
pub(super) type Part = (Model, &'static str);

impl Application {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Svt, Self::QaAudio, Self::Ss, Self::QaText];

    /// As in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Svt => "SVT",
            Self::QaAudio => "QA-Audio",
            Self::Ss => "SS",
            Self::QaText => "QA-Text",
        }
    }

    /// How many times the load of SVT it has, so that each application keeps about as many cores busy: 12 to 18
    /// at 20 requests/s of SVT. Assumed; the paper's text gives no loads.
    pub const fn load_factor(self) -> u64 {
        match self {
            Self::Svt | Self::QaAudio => 1,
            Self::Ss => 10,
            Self::QaText => 25,
        }
    }

    /// Its stages, one after the other; a request goes to one of a stage's functions, each as likely.
    pub fn stages(self) -> &'static [&'static [Part]] {
        match self {
            Self::Svt => &[
                &[(SSD, "")],
                &[(RESNET152, "cars"), (RESNET152, "motorcycles")],
            ],
            Self::QaAudio => &[&[(STT, "")], &[(USE_QA, "")], &[(FASTSPEECH2, "")]],
            Self::Ss => &[&[(USE, "")]],
            Self::QaText => &[&[(TEXTCNN, "")], &[(LSTM, "")], &[(DSSM, "")]],
        }
    }
}
