# The fault bench. The variables are explained in faults/doc.go; each target prints its seed.
FAULTS_TEST = go test -count=1 -v ./faults

.PHONY: faults-crash faults-power faults-mutants faults-readback faults-tools

faults-crash faults-power: export ORCAS_FAULTS_READY ?= 5

faults-crash: ## 30 cycles of SIGKILL and 5 of SIGTERM under load: nothing acknowledged is lost
	ORCAS_FAULTS_CRASH=$${ORCAS_FAULTS_CRASH:-30} ORCAS_FAULTS_TERM=$${ORCAS_FAULTS_TERM:-5} \
	ORCAS_FAULTS_RATE=$${ORCAS_FAULTS_RATE:-200} $(FAULTS_TEST) -run '^(TestKill|TestTerm)$$' -timeout 60m

faults-power: faults-tools ## 5 power cuts under load: nothing acknowledged is lost (needs root)
	ORCAS_FAULTS_POWER=$${ORCAS_FAULTS_POWER:-5} ORCAS_FAULTS_REQUIRED=1 $(FAULTS_TEST) -run '^TestPowerCut$$' -timeout 60m

faults-mutants: faults-tools ## builds without one guard each: the bench must find every one (needs root)
	ORCAS_FAULTS_MUTANTS=$${ORCAS_FAULTS_MUTANTS:-all} ORCAS_FAULTS_REQUIRED=1 $(FAULTS_TEST) -run '^TestMutants$$' -timeout 60m

faults-readback: ## 64 writers, 20,000 objects of 0 to 70,000 bytes, every one read back and compared
	ORCAS_FAULTS_READBACK=$${ORCAS_FAULTS_READBACK:-20000} $(FAULTS_TEST) -run '^TestReadBack$$' -timeout 60m

# What makes the images of the power cuts.
faults-tools:
	@for tool in mkfs.ext4 mkfs.btrfs mkfs.xfs; do \
		command -v $$tool >/dev/null || { apt-get update -qq && apt-get install -y -qq e2fsprogs btrfs-progs xfsprogs; break; }; \
	done
