"""The program of a worker process of `reproduce --workers`, which runs the runs of tables."""

from hf_localattn.reproduction.runs import RunJob
from hf_localattn.studies.worker import main

if __name__ == "__main__":
    main(RunJob.from_json)
