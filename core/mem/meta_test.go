package mem_test

import (
	"testing"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
)

func openMeta(*testing.T) core.Meta { return mem.NewMeta() }

func TestMeta(t *testing.T) { coretest.Meta(t, openMeta) }

func TestMetaModel(t *testing.T) { coretest.MetaModel(t, openMeta) }
