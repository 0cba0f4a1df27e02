# Takes "strip everything" out of a project's linker flags, whenever the project sets them.
#
# Given as CMAKE_PROJECT_INCLUDE, for build types that promise symbols. MNN appends -s to
# CMAKE_SHARED_LINKER_FLAGS and CMAKE_EXE_LINKER_FLAGS for every type but Debug, and a linker has no
# option that takes it back.
macro(devkit_keep_symbols variable access value file stack)
  if("${access}" STREQUAL "MODIFIED_ACCESS")
    string(REGEX REPLACE "(^| )(-s|-Wl,-s|-Wl,--strip-all)( |$)" " " devkit_kept_flags "${value}")
    set(${variable} "${devkit_kept_flags}")
  endif()
endmacro()

if(NOT DEFINED DEVKIT_KEEPS_SYMBOLS)
  set(DEVKIT_KEEPS_SYMBOLS TRUE)
  foreach(devkit_kind EXE SHARED MODULE)
    foreach(devkit_type "" _RELEASE _RELWITHDEBINFO)
      variable_watch(CMAKE_${devkit_kind}_LINKER_FLAGS${devkit_type} devkit_keep_symbols)
    endforeach()
  endforeach()
endif()
