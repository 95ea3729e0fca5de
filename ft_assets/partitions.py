"""The two dimensions of the graph and their product, declared here and nowhere else."""

import dagster as dg

dataset_partitions = dg.DynamicPartitionsDefinition(name="dataset")
recipe_partitions = dg.DynamicPartitionsDefinition(name="recipe")
pair_partitions = dg.MultiPartitionsDefinition({"dataset": dataset_partitions, "recipe": recipe_partitions})
