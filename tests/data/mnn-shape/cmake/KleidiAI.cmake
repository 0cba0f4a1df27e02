# As in MNN: a local folder, else a download that may fail without ending the configure.
if(DEFINED KLEIDIAI_SRC_DIR AND EXISTS "${KLEIDIAI_SRC_DIR}")
  message(STATUS "KleidiAI from ${KLEIDIAI_SRC_DIR}")
  add_definitions(-DMNN_KLEIDIAI_ENABLED=1)
else()
  file(DOWNLOAD "file:///nowhere/kleidiai.tar.gz" "${CMAKE_CURRENT_BINARY_DIR}/kleidiai.tar.gz" STATUS status)
  message(WARNING "KleidiAI download failed: ${status}. Building without KleidiAI. "
    "If you have the source locally, set KLEIDIAI_SRC_DIR to skip downloading.")
endif()
