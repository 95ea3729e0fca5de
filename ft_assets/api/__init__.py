"""The Python API: one function for each thing that a person can ask for. The command line, the HTTP API and Dagster
call these.

All of them take ``store=`` (default: that of ``FT_STORE``); those that record something take ``actor=`` (default: the
operating system's user). Errors that a person can correct are UserError or a subclass: what is wrong, where, and what
to do. Names are imported on first use, so that ``ft --help`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ft_assets.api.access import Access as Access
    from ft_assets.api.access import Allowance as Allowance
    from ft_assets.api.access import ApiKey as ApiKey
    from ft_assets.api.access import ApiRequest as ApiRequest
    from ft_assets.api.access import AuditEntry as AuditEntry
    from ft_assets.api.access import Identity as Identity
    from ft_assets.api.access import Role as Role
    from ft_assets.api.access import admit as admit
    from ft_assets.api.access import audit as audit
    from ft_assets.api.access import audit_page as audit_page
    from ft_assets.api.access import count_request as count_request
    from ft_assets.api.access import count_wrong_key as count_wrong_key
    from ft_assets.api.access import create_key as create_key
    from ft_assets.api.access import end_session as end_session
    from ft_assets.api.access import identify as identify
    from ft_assets.api.access import list_keys as list_keys
    from ft_assets.api.access import maker_of as maker_of
    from ft_assets.api.access import open_access as open_access
    from ft_assets.api.access import open_session as open_session
    from ft_assets.api.access import require_not_erased as require_not_erased
    from ft_assets.api.access import require_role as require_role
    from ft_assets.api.access import revoke_key as revoke_key
    from ft_assets.api.access import session as session
    from ft_assets.api.adapters import adapter_signature as adapter_signature
    from ft_assets.api.adapters import copy_out as copy_out
    from ft_assets.api.adapters import download_adapter as download_adapter
    from ft_assets.api.adapters import download_base as download_base
    from ft_assets.api.adapters import find_adapter as find_adapter
    from ft_assets.api.adapters import find_base as find_base
    from ft_assets.api.adapters import list_adapters as list_adapters
    from ft_assets.api.adapters import name_base as name_base
    from ft_assets.api.adapters import require_downloaded as require_downloaded
    from ft_assets.api.adapters import sign_adapter as sign_adapter
    from ft_assets.api.addresses import find_address as find_address
    from ft_assets.api.artifacts import Lineage as Lineage
    from ft_assets.api.artifacts import lineage as lineage
    from ft_assets.api.artifacts import prove_ledger as prove_ledger
    from ft_assets.api.artifacts import verify as verify
    from ft_assets.api.backfills import backfill as backfill
    from ft_assets.api.base_bumps import BaseBumpReport as BaseBumpReport
    from ft_assets.api.base_bumps import advance_base_bumps as advance_base_bumps
    from ft_assets.api.base_bumps import base_bump as base_bump
    from ft_assets.api.base_bumps import carry as carry
    from ft_assets.api.base_bumps import release_base as release_base
    from ft_assets.api.base_bumps import start_base_bump as start_base_bump
    from ft_assets.api.base_bumps import start_base_bumps as start_base_bumps
    from ft_assets.api.cluster_plans import TierPlan as TierPlan
    from ft_assets.api.cluster_plans import cluster_plan as cluster_plan
    from ft_assets.api.clusters import bucket_policy as bucket_policy
    from ft_assets.api.clusters import cluster_manifests as cluster_manifests
    from ft_assets.api.conversations import ConversationLog as ConversationLog
    from ft_assets.api.conversations import keep_conversation as keep_conversation
    from ft_assets.api.conversations import require_kept as require_kept
    from ft_assets.api.dataset_cards import dataset_card as dataset_card
    from ft_assets.api.dataset_cards import dataset_keys as dataset_keys
    from ft_assets.api.dataset_uploads import add_rows as add_rows
    from ft_assets.api.dataset_uploads import begin_dataset as begin_dataset
    from ft_assets.api.dataset_uploads import complete_dataset as complete_dataset
    from ft_assets.api.dataset_uploads import dataset_upload as dataset_upload
    from ft_assets.api.dataset_uploads import expected_version as expected_version
    from ft_assets.api.dataset_uploads import open_place as open_place
    from ft_assets.api.dataset_uploads import place_of_upload as place_of_upload
    from ft_assets.api.dataset_uploads import receive_dataset as receive_dataset
    from ft_assets.api.dataset_uploads import receive_rows as receive_rows
    from ft_assets.api.datasets import DatasetReport as DatasetReport
    from ft_assets.api.datasets import add_dataset as add_dataset
    from ft_assets.api.datasets import approve_dataset as approve_dataset
    from ft_assets.api.datasets import curate_dataset as curate_dataset
    from ft_assets.api.datasets import dataset_report as dataset_report
    from ft_assets.api.datasets import diff_datasets as diff_datasets
    from ft_assets.api.datasets import list_datasets as list_datasets
    from ft_assets.api.datasets import near_rows as near_rows
    from ft_assets.api.datasets import source_files as source_files
    from ft_assets.api.defaults import Known as Known
    from ft_assets.api.defaults import Orchestrator as Orchestrator
    from ft_assets.api.defaults import orchestrator_or_default as orchestrator_or_default
    from ft_assets.api.deletion import collect_deleted as collect_deleted
    from ft_assets.api.deletion import delete as delete
    from ft_assets.api.deletion import erase_tenant as erase_tenant
    from ft_assets.api.deletion import held_beyond_grace as held_beyond_grace
    from ft_assets.api.deletion import is_deleted as is_deleted
    from ft_assets.api.deletion import restore as restore
    from ft_assets.api.estimates import Estimate as Estimate
    from ft_assets.api.estimates import Provable as Provable
    from ft_assets.api.estimates import estimate as estimate
    from ft_assets.api.exports import Exported as Exported
    from ft_assets.api.exports import export as export
    from ft_assets.api.figures import PlatformFigures as PlatformFigures
    from ft_assets.api.figures import PlatformLook as PlatformLook
    from ft_assets.api.figures import platform_figures as platform_figures
    from ft_assets.api.files import IncompleteFile as IncompleteFile
    from ft_assets.api.files import UploadedFile as UploadedFile
    from ft_assets.api.files import add_file as add_file
    from ft_assets.api.files import delete_file as delete_file
    from ft_assets.api.files import fetch_file as fetch_file
    from ft_assets.api.files import file_ids as file_ids
    from ft_assets.api.files import find_file as find_file
    from ft_assets.api.files import read_file as read_file
    from ft_assets.api.files import remove_expired_files as remove_expired_files
    from ft_assets.api.finetunes import Asked as Asked
    from ft_assets.api.finetunes import FineTuned as FineTuned
    from ft_assets.api.finetunes import fine_tune as fine_tune
    from ft_assets.api.finetunes import name_of_first_try as name_of_first_try
    from ft_assets.api.finetunes import submit as submit
    from ft_assets.api.first_looks import IGNORE as IGNORE
    from ft_assets.api.first_looks import BadRows as BadRows
    from ft_assets.api.first_looks import Choices as Choices
    from ft_assets.api.first_looks import FirstLook as FirstLook
    from ft_assets.api.first_looks import ShownRow as ShownRow
    from ft_assets.api.first_looks import look_at_file as look_at_file
    from ft_assets.api.first_looks import look_at_head as look_at_head
    from ft_assets.api.first_looks import reading_of as reading_of
    from ft_assets.api.folder_steps import FolderStep as FolderStep
    from ft_assets.api.gates import GateReport as GateReport
    from ft_assets.api.gates import Verdict as Verdict
    from ft_assets.api.gates import evaluation as evaluation
    from ft_assets.api.gates import show_gates as show_gates
    from ft_assets.api.gates import waive_gate as waive_gate
    from ft_assets.api.gitops import apply_folder as apply_folder
    from ft_assets.api.gitops import plan_folder as plan_folder
    from ft_assets.api.job_estimates import estimate_job as estimate_job
    from ft_assets.api.job_figures import JobFigures as JobFigures
    from ft_assets.api.job_figures import figures_of_job as figures_of_job
    from ft_assets.api.job_states import JobState as JobState
    from ft_assets.api.job_states import glance_at_jobs as glance_at_jobs
    from ft_assets.api.job_states import job_state as job_state
    from ft_assets.api.job_states import look_ahead as look_ahead
    from ft_assets.api.job_states import may_be_resumed as may_be_resumed
    from ft_assets.api.job_states import trained_tokens as trained_tokens
    from ft_assets.api.jobs import Job as Job
    from ft_assets.api.jobs import JobWork as JobWork
    from ft_assets.api.jobs import cancel_job as cancel_job
    from ft_assets.api.jobs import create_job as create_job
    from ft_assets.api.jobs import give_up as give_up
    from ft_assets.api.jobs import job_ids as job_ids
    from ft_assets.api.jobs import job_work as job_work
    from ft_assets.api.jobs import load_settling as load_settling
    from ft_assets.api.jobs import offered_models as offered_models
    from ft_assets.api.jobs import pause_job as pause_job
    from ft_assets.api.jobs import resume_job as resume_job
    from ft_assets.api.jobs import settle_job as settle_job
    from ft_assets.api.jobs import unsettled_jobs as unsettled_jobs
    from ft_assets.api.lacks import Lack as Lack
    from ft_assets.api.lacks import doctor as doctor
    from ft_assets.api.lines import POINTERS as POINTERS
    from ft_assets.api.lines import LineState as LineState
    from ft_assets.api.lines import Pointer as Pointer
    from ft_assets.api.lines import PromotionRecord as PromotionRecord
    from ft_assets.api.lines import Proposal as Proposal
    from ft_assets.api.lines import ProposalState as ProposalState
    from ft_assets.api.lines import WaitsForSecondPerson as WaitsForSecondPerson
    from ft_assets.api.lines import approve_promotion as approve_promotion
    from ft_assets.api.lines import decline_promotion as decline_promotion
    from ft_assets.api.lines import list_lines as list_lines
    from ft_assets.api.lines import list_proposals as list_proposals
    from ft_assets.api.lines import promote as promote
    from ft_assets.api.lines import roll_back as roll_back
    from ft_assets.api.lines import show_line as show_line
    from ft_assets.api.links import LINKS as LINKS
    from ft_assets.api.links import LinkSignature as LinkSignature
    from ft_assets.api.links import SignedLink as SignedLink
    from ft_assets.api.links import open_link as open_link
    from ft_assets.api.links import sign_link as sign_link
    from ft_assets.api.log_pages import LogState as LogState
    from ft_assets.api.log_pages import log_chunks as log_chunks
    from ft_assets.api.log_pages import log_state as log_state
    from ft_assets.api.log_pages import outcome as outcome
    from ft_assets.api.machine import Kernel as Kernel
    from ft_assets.api.machine import kernels as kernels
    from ft_assets.api.metering import Usage as Usage
    from ft_assets.api.metering import meter as meter
    from ft_assets.api.metering import refund as refund
    from ft_assets.api.metering import usage as usage
    from ft_assets.api.model_cards import ModelCard as ModelCard
    from ft_assets.api.model_cards import cards_of_models as cards_of_models
    from ft_assets.api.models import delete_model as delete_model
    from ft_assets.api.models import made_models as made_models
    from ft_assets.api.models import model_is_deleted as model_is_deleted
    from ft_assets.api.notices import list_notices as list_notices
    from ft_assets.api.notices import send_notices as send_notices
    from ft_assets.api.notices import watch_queues as watch_queues
    from ft_assets.api.orchestration import MOST_AGAIN as MOST_AGAIN
    from ft_assets.api.orchestration import Launch as Launch
    from ft_assets.api.orchestration import Present as Present
    from ft_assets.api.orchestration import RunState as RunState
    from ft_assets.api.orchestration import Stage as Stage
    from ft_assets.api.orchestration import Wanted as Wanted
    from ft_assets.api.orchestration import impossible as impossible
    from ft_assets.api.orchestration import next_launches as next_launches
    from ft_assets.api.orchestration import present as present
    from ft_assets.api.orchestration import require_approved as require_approved
    from ft_assets.api.orphans import settle_orphans as settle_orphans
    from ft_assets.api.outcomes import AnswerFormat as AnswerFormat
    from ft_assets.api.outcomes import OutcomeLog as OutcomeLog
    from ft_assets.api.outcomes import Thumb as Thumb
    from ft_assets.api.outcomes import grade as grade
    from ft_assets.api.outcomes import note_answer as note_answer
    from ft_assets.api.outcomes import note_failure as note_failure
    from ft_assets.api.outcomes import note_feedback as note_feedback
    from ft_assets.api.outcomes import note_format as note_format
    from ft_assets.api.outcomes import require_line as require_line
    from ft_assets.api.parity import ParityRecord as ParityRecord
    from ft_assets.api.parity import ParityReport as ParityReport
    from ft_assets.api.parity import Render as Render
    from ft_assets.api.parity import ServerSettings as ServerSettings
    from ft_assets.api.parity import check_parity as check_parity
    from ft_assets.api.parity import show_parity as show_parity
    from ft_assets.api.parity_of_servers import check_servers as check_servers
    from ft_assets.api.part_uploads import UploadState as UploadState
    from ft_assets.api.part_uploads import add_part as add_part
    from ft_assets.api.part_uploads import begin_upload as begin_upload
    from ft_assets.api.part_uploads import cancel_upload as cancel_upload
    from ft_assets.api.part_uploads import complete_upload as complete_upload
    from ft_assets.api.part_uploads import end_expired_uploads as end_expired_uploads
    from ft_assets.api.recipes import RetiredRecipe as RetiredRecipe
    from ft_assets.api.recipes import get_recipe as get_recipe
    from ft_assets.api.recipes import has_recipe as has_recipe
    from ft_assets.api.recipes import list_recipes as list_recipes
    from ft_assets.api.recipes import next_version as next_version
    from ft_assets.api.recipes import resolved_recipe as resolved_recipe
    from ft_assets.api.recipes import restore_recipe as restore_recipe
    from ft_assets.api.recipes import retire_recipe as retire_recipe
    from ft_assets.api.registration import register_recipe as register_recipe
    from ft_assets.api.report_pages import ReportFile as ReportFile
    from ft_assets.api.report_pages import report_file as report_file
    from ft_assets.api.retention import PlacesCollected as PlacesCollected
    from ft_assets.api.retention import collect_leftovers as collect_leftovers
    from ft_assets.api.retention import collect_unreferenced as collect_unreferenced
    from ft_assets.api.retention import collects_unreferenced as collects_unreferenced
    from ft_assets.api.retention import retire_datasets as retire_datasets
    from ft_assets.api.retraining import retrain as retrain
    from ft_assets.api.rollouts import OUTCOMES as OUTCOMES
    from ft_assets.api.rollouts import RolloutRecord as RolloutRecord
    from ft_assets.api.rollouts import RolloutReport as RolloutReport
    from ft_assets.api.rollouts import advance_rollouts as advance_rollouts
    from ft_assets.api.rollouts import cancel_rollout as cancel_rollout
    from ft_assets.api.rollouts import choose_adapter as choose_adapter
    from ft_assets.api.rollouts import show_rollout as show_rollout
    from ft_assets.api.rollouts import start_rollout as start_rollout
    from ft_assets.api.rollouts import weights_of as weights_of
    from ft_assets.api.served_models import Division as Division
    from ft_assets.api.served_models import FoundModel as FoundModel
    from ft_assets.api.served_models import PromptCache as PromptCache
    from ft_assets.api.served_models import Prompts as Prompts
    from ft_assets.api.served_models import find_division as find_division
    from ft_assets.api.served_models import find_served_model as find_served_model
    from ft_assets.api.served_models import list_served_models as list_served_models
    from ft_assets.api.served_models import no_model as no_model
    from ft_assets.api.served_models import only_model as only_model
    from ft_assets.api.served_models import served_model_at as served_model_at
    from ft_assets.api.served_models import with_own_thoughts as with_own_thoughts
    from ft_assets.api.serving import DriftWatch as DriftWatch
    from ft_assets.api.serving import LineServed as LineServed
    from ft_assets.api.serving import Reconciler as Reconciler
    from ft_assets.api.serving import ServerShown as ServerShown
    from ft_assets.api.serving import ServingStatus as ServingStatus
    from ft_assets.api.serving import follow_lines as follow_lines
    from ft_assets.api.serving import keep_status as keep_status
    from ft_assets.api.serving import open_fleet as open_fleet
    from ft_assets.api.serving import serving_status as serving_status
    from ft_assets.api.serving import watch_drift as watch_drift
    from ft_assets.api.shadow_judges import judge_copies as judge_copies
    from ft_assets.api.shadows import FAILED as FAILED
    from ft_assets.api.shadows import SHADOW_CONVERSATIONS as SHADOW_CONVERSATIONS
    from ft_assets.api.shadows import AnswerSeen as AnswerSeen
    from ft_assets.api.shadows import ShadowLog as ShadowLog
    from ft_assets.api.shadows import note_pair as note_pair
    from ft_assets.api.shadows import seen_of as seen_of
    from ft_assets.api.side_by_side import BothAnswers as BothAnswers
    from ft_assets.api.side_by_side import answers_side_by_side as answers_side_by_side
    from ft_assets.api.sign_in import SignedIn as SignedIn
    from ft_assets.api.sign_in import begin_sign_in as begin_sign_in
    from ft_assets.api.sign_in import choose_tenant as choose_tenant
    from ft_assets.api.sign_in import end_sign_in as end_sign_in
    from ft_assets.api.sign_in import sign_in_name as sign_in_name
    from ft_assets.api.sources import News as News
    from ft_assets.api.sources import Watched as Watched
    from ft_assets.api.sources import news_of_sources as news_of_sources
    from ft_assets.api.sources import pull_dataset as pull_dataset
    from ft_assets.api.sources import unwatch_dataset as unwatch_dataset
    from ft_assets.api.sources import watch_dataset as watch_dataset
    from ft_assets.api.sources import watched_datasets as watched_datasets
    from ft_assets.api.steps import Step as Step
    from ft_assets.api.stopping import Paused as Paused
    from ft_assets.api.stopping import Resumed as Resumed
    from ft_assets.api.stopping import Stopped as Stopped
    from ft_assets.api.stopping import cancel as cancel
    from ft_assets.api.stopping import end_interrupted as end_interrupted
    from ft_assets.api.stopping import pause as pause
    from ft_assets.api.stopping import require_not_paused as require_not_paused
    from ft_assets.api.stopping import resume as resume
    from ft_assets.api.submission_lists import list_submissions as list_submissions
    from ft_assets.api.submissions import ExportProgress as ExportProgress
    from ft_assets.api.submissions import Logs as Logs
    from ft_assets.api.submissions import Status as Status
    from ft_assets.api.submissions import TrialProgress as TrialProgress
    from ft_assets.api.submissions import Wait as Wait
    from ft_assets.api.submissions import Work as Work
    from ft_assets.api.submissions import exports_of as exports_of
    from ft_assets.api.submissions import logs as logs
    from ft_assets.api.submissions import status as status
    from ft_assets.api.submissions import sweep_progress as sweep_progress
    from ft_assets.api.submissions import works as works
    from ft_assets.api.suites import add_classifier as add_classifier
    from ft_assets.api.suites import add_encoder as add_encoder
    from ft_assets.api.suites import add_name_model as add_name_model
    from ft_assets.api.suites import add_suite as add_suite
    from ft_assets.api.suites import install_suites as install_suites
    from ft_assets.api.suites import list_classifiers as list_classifiers
    from ft_assets.api.suites import list_encoders as list_encoders
    from ft_assets.api.suites import list_name_models as list_name_models
    from ft_assets.api.suites import list_suites as list_suites
    from ft_assets.api.suites import suite_catalogue as suite_catalogue
    from ft_assets.api.suites import suites_left as suites_left
    from ft_assets.api.talks import FoundResult as FoundResult
    from ft_assets.api.talks import find_result as find_result
    from ft_assets.api.talks import open_talk as open_talk
    from ft_assets.api.targets import find_target as find_target
    from ft_assets.api.targets import names_of as names_of
    from ft_assets.api.views import rebuild as rebuild
    from ft_assets.api.walls import walls_of_adapter as walls_of_adapter
    from ft_assets.api.walls import walls_of_dataset as walls_of_dataset
    from ft_assets.api.walls import walls_of_pair as walls_of_pair

_MODULES = {
    "access": "Access Allowance ApiKey ApiRequest AuditEntry Identity Role admit audit audit_page count_request "
    "count_wrong_key create_key end_session identify list_keys maker_of open_access open_session require_not_erased "
    "require_role revoke_key session",
    "adapters": "adapter_signature copy_out download_adapter download_base find_adapter find_base list_adapters "
    "name_base require_downloaded sign_adapter",
    "addresses": "find_address",
    "artifacts": "Lineage lineage prove_ledger verify",
    "backfills": "backfill",
    "base_bumps": "BaseBumpReport advance_base_bumps base_bump carry release_base start_base_bump start_base_bumps",
    "cluster_plans": "TierPlan cluster_plan",
    "clusters": "bucket_policy cluster_manifests",
    "conversations": "ConversationLog keep_conversation require_kept",
    "dataset_cards": "dataset_card dataset_keys",
    "dataset_uploads": "add_rows begin_dataset complete_dataset dataset_upload expected_version open_place "
    "place_of_upload receive_dataset receive_rows",
    "datasets": "DatasetReport add_dataset approve_dataset curate_dataset dataset_report diff_datasets list_datasets "
    "near_rows source_files",
    "defaults": "Known Orchestrator orchestrator_or_default",
    "deletion": "collect_deleted delete erase_tenant held_beyond_grace is_deleted restore",
    "estimates": "Estimate Provable estimate",
    "exports": "Exported export",
    "figures": "PlatformFigures PlatformLook platform_figures",
    "files": "IncompleteFile UploadedFile add_file delete_file fetch_file file_ids find_file read_file "
    "remove_expired_files",
    "finetunes": "Asked FineTuned fine_tune name_of_first_try submit",
    "first_looks": "IGNORE BadRows Choices FirstLook ShownRow look_at_file look_at_head reading_of",
    "gates": "GateReport Verdict evaluation show_gates waive_gate",
    "gitops": "FolderStep apply_folder plan_folder",
    "job_estimates": "estimate_job",
    "job_figures": "JobFigures figures_of_job",
    "job_states": "JobState glance_at_jobs job_state look_ahead may_be_resumed trained_tokens",
    "jobs": "Job JobWork cancel_job create_job give_up job_ids job_work load_settling "
    "offered_models pause_job resume_job settle_job unsettled_jobs",
    "lacks": "Lack doctor",
    "lines": "POINTERS LineState Pointer PromotionRecord Proposal ProposalState WaitsForSecondPerson "
    "approve_promotion decline_promotion list_lines list_proposals promote roll_back show_line",
    "log_pages": "LogState log_chunks log_state outcome",
    "links": "LINKS LinkSignature SignedLink open_link sign_link",
    "machine": "Kernel kernels",
    "metering": "Usage meter refund usage",
    "model_cards": "ModelCard cards_of_models",
    "models": "delete_model made_models model_is_deleted",
    "notices": "list_notices send_notices watch_queues",
    "orchestration": "MOST_AGAIN Launch Present RunState Stage Wanted impossible next_launches present "
    "require_approved",
    "orphans": "settle_orphans",
    "outcomes": "AnswerFormat OutcomeLog Thumb grade note_answer note_failure note_feedback note_format require_line",
    "parity": "ParityRecord ParityReport Render ServerSettings check_parity show_parity",
    "parity_of_servers": "check_servers",
    "part_uploads": "UploadState add_part begin_upload cancel_upload complete_upload end_expired_uploads",
    "recipes": "RetiredRecipe get_recipe has_recipe list_recipes next_version resolved_recipe restore_recipe "
    "retire_recipe",
    "registration": "register_recipe",
    "report_pages": "ReportFile report_file",
    "retention": "PlacesCollected collect_leftovers collect_unreferenced collects_unreferenced retire_datasets",
    "retraining": "retrain",
    "rollouts": "OUTCOMES RolloutRecord RolloutReport advance_rollouts cancel_rollout choose_adapter show_rollout "
    "start_rollout weights_of",
    "served_models": "Division FoundModel PromptCache Prompts find_division find_served_model list_served_models "
    "no_model only_model served_model_at with_own_thoughts",
    "shadow_judges": "judge_copies",
    "shadows": "FAILED SHADOW_CONVERSATIONS AnswerSeen ShadowLog note_pair seen_of",
    "side_by_side": "BothAnswers answers_side_by_side",
    "serving": "DriftWatch LineServed Reconciler ServerShown ServingStatus follow_lines keep_status open_fleet "
    "serving_status watch_drift",
    "sign_in": "SignedIn begin_sign_in choose_tenant end_sign_in sign_in_name",
    "sources": "News Watched news_of_sources pull_dataset unwatch_dataset watch_dataset watched_datasets",
    "steps": "Step",
    "stopping": "Paused Resumed Stopped cancel end_interrupted pause require_not_paused resume",
    "submission_lists": "list_submissions",
    "submissions": "ExportProgress Logs Status TrialProgress Wait Work exports_of logs status sweep_progress works",
    "suites": "add_classifier add_encoder add_name_model add_suite install_suites list_classifiers list_encoders "
    "list_name_models list_suites suite_catalogue suites_left",
    "talks": "FoundResult find_result open_talk",
    "targets": "find_target names_of",
    "views": "rebuild",
    "walls": "walls_of_adapter walls_of_dataset walls_of_pair",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
