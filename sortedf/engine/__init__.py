"""The engine that runs a plan: what fits into its KV cache."""

from sortedf.engine.kv_budget import KvBudget, Step, kv_budget
from sortedf.engine.model_config import KvShape, kv_shape, read_config

__all__ = ["KvBudget", "KvShape", "Step", "kv_budget", "kv_shape", "read_config"]
